package podcertificaterequest

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// MaySign reports whether a user has the verb "sign" for a signer.
type MaySign func(ctx context.Context, who user.Info, signerName string) bool

// statusStrategy lets a user answer a request only if the user may sign for its
// signer.
type statusStrategy struct{ strategy }

// PrepareForUpdate restores everything except the status and the metadata that
// the server manages.
func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	answered, stored := obj.(*podRequest), old.(*podRequest)
	answered.Spec = stored.Spec
	metav1.ResetObjectMetaForStatus(&answered.ObjectMeta, &stored.ObjectMeta)
}

// ValidateUpdate checks the right to sign first: a user without it learns
// nothing from validation.
func (s statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	answered, stored := obj.(*podRequest), old.(*podRequest)
	if err := s.authorize(ctx, answered, stored); err != nil {
		return field.ErrorList{err}
	}
	return certificates.ValidatePodRequestStatusUpdate(answered, stored, s.now())
}

// authorize returns an error of a field, which becomes part of a 422, because
// clients of Kubernetes expect one. An update that changes nothing needs no
// right. The signer is taken from the stored request.
func (s statusStrategy) authorize(ctx context.Context, answered, stored *podRequest) *field.Error {
	if apiequality.Semantic.DeepEqual(answered.Status, stored.Status) {
		return nil
	}
	path := field.NewPath("spec", "signerName")
	who, ok := request.UserFrom(ctx)
	if !ok {
		return field.InternalError(path, errors.New("the request has no user"))
	}
	if signer := stored.Spec.SignerName; !s.maySign(ctx, who, signer) {
		return field.Forbidden(path, fmt.Sprintf("user %q is not permitted to sign requests with signerName %q: "+
			`it needs the verb "sign" on the resource "signers" of certificates.k8s.io, by this name or by the domain with "/*"`, who.GetName(), signer))
	}
	return nil
}

// WarningsOnUpdate warns a signer of problems in the chain that it has just
// written.
func (statusStrategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	answered, stored := obj.(*podRequest), old.(*podRequest)
	if answered.Status.CertificateChain == stored.Status.CertificateChain {
		return nil
	}
	return certificates.PodChainWarnings(answered.Status.CertificateChain)
}

func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	paths := []fieldpath.Path{fieldpath.MakePathOrDie("spec")}
	for _, name := range []string{"annotations", "finalizers", "labels", "ownerReferences"} {
		paths = append(paths, fieldpath.MakePathOrDie("metadata", name))
	}
	return kind.ResetIn(certificates.RequestVersions, paths...)
}
