//lint:file-ignore SA1019 nodes of Kubernetes 1.35 support only these fields

package podcertificaterequest

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

type podRequest = certificatesv1beta1.PodCertificateRequest

// strategy defines which fields can be written through the resource itself: a
// client sets the metadata at any time and the spec at creation.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator

	maySign MaySign
	// now is the time with which new certificates are compared.
	now func() time.Time
}

var (
	_ rest.RESTCreateStrategy  = strategy{}
	_ rest.RESTUpdateStrategy  = strategy{}
	_ rest.RESTDeleteStrategy  = strategy{}
	_ rest.ResetFieldsStrategy = strategy{}
)

func (strategy) NamespaceScoped() bool { return true }

func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

func (strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

func (strategy) Canonicalize(runtime.Object) {}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// PrepareForCreate starts with an unanswered request.
func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	obj.(*podRequest).Status = certificatesv1beta1.PodCertificateRequestStatus{}
}

func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return certificates.ValidatePodRequest(obj.(*podRequest))
}

// PrepareForUpdate leaves the spec to validation, which refuses every change.
// Clients of v1 cannot represent all fields of an old request, so they change
// none of the spec.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	updated, stored := obj.(*podRequest), old.(*podRequest)
	updated.Status = stored.Status
	if info, ok := request.RequestInfoFrom(ctx); ok && info.APIVersion == certificatesv1.SchemeGroupVersion.Version {
		updated.Spec.PKIXPublicKey = stored.Spec.PKIXPublicKey
		updated.Spec.ProofOfPossession = stored.Spec.ProofOfPossession
	}
}

func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return certificates.ValidatePodRequestUpdate(obj.(*podRequest), old.(*podRequest))
}

// GetResetFields keeps field managers from owning fields that updates restore.
func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetIn(certificates.RequestVersions, fieldpath.MakePathOrDie("status"))
}
