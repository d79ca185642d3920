package csr

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// strategy defines which fields can be written through the resource itself: a
// client sets the metadata at any time and four fields of the spec at creation.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator

	// durations keeps spec.expirationSeconds (KEP-2784).
	durations bool
	// now returns the time for conditions.
	now func() time.Time
}

var (
	_ rest.RESTCreateStrategy  = strategy{}
	_ rest.RESTUpdateStrategy  = strategy{}
	_ rest.RESTDeleteStrategy  = strategy{}
	_ rest.ResetFieldsStrategy = strategy{}
)

func (strategy) NamespaceScoped() bool { return false }

func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

func (strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

func (strategy) Canonicalize(runtime.Object) {}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// PrepareForCreate sets the requester and starts with an undecided request,
// whatever the client sent.
func (s strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	csr := obj.(*certificatesv1.CertificateSigningRequest)
	assertRequester(ctx, &csr.Spec)
	if !s.durations {
		csr.Spec.ExpirationSeconds = nil
	}
	// It is not nil, so that the status serializes the same for every new
	// request.
	csr.Status = certificatesv1.CertificateSigningRequestStatus{
		Conditions: []certificatesv1.CertificateSigningRequestCondition{},
	}
}

// assertRequester overwrites the client's values with those from
// authentication.
func assertRequester(ctx context.Context, spec *certificatesv1.CertificateSigningRequestSpec) {
	spec.Username, spec.UID, spec.Groups, spec.Extra = "", "", nil, nil
	requester, ok := request.UserFrom(ctx)
	if !ok {
		return
	}
	spec.Username = requester.GetName()
	spec.UID = requester.GetUID()
	spec.Groups = requester.GetGroups()
	spec.Extra = extraOf(requester)
}

func extraOf(requester user.Info) map[string]certificatesv1.ExtraValue {
	if len(requester.GetExtra()) == 0 {
		return nil
	}
	extra := make(map[string]certificatesv1.ExtraValue, len(requester.GetExtra()))
	for key, values := range requester.GetExtra() {
		extra[key] = certificatesv1.ExtraValue(values)
	}
	return extra
}

func (strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return certificates.ValidateCSR(obj.(*certificatesv1.CertificateSigningRequest), requestVersion(ctx))
}

// PrepareForUpdate allows only changes of the metadata.
func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	csr.Spec = stored.Spec
	csr.Status = stored.Status
}

func (strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	return certificates.ValidateCSRUpdate(csr, stored, requestVersion(ctx))
}

// GetResetFields keeps field managers from owning fields that updates restore.
// The spec is one of them, although a create sets it.
func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetIn(certificates.RequestVersions, fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status"))
}

// requestVersion returns the API version of the client's request. Calls that do
// not come from a client have none, and no version's leniency applies to them.
func requestVersion(ctx context.Context) schema.GroupVersion {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return schema.GroupVersion{}
	}
	return schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
}
