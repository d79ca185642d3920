package admission

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/admission/certplane"
)

// Revoker decides about Revocations. Its errors are those of the API.
type Revoker interface {
	// Create returns an error if a user may not create a Revocation.
	Create(ctx context.Context, by user.Info, object *v1alpha1.Revocation) error
	// Delete returns an error if a Revocation must not be deleted yet.
	Delete(object *v1alpha1.Revocation) error
}

// WantsRevoker is for plugins that decide about Revocations.
type WantsRevoker interface{ SetRevoker(Revoker) }

// revocation refuses Revocations whose creator may not revoke all their certificates. The
// store asks the same: this check is for dry runs and for deletions.
type revocation struct {
	*admission.Handler
	revoker Revoker
}

var (
	_ admission.ValidationInterface     = &revocation{}
	_ admission.InitializationValidator = &revocation{}
	_ WantsRevoker                      = &revocation{}
)

func newRevocation(authorizer.UnconditionalAuthorizer) admission.Interface {
	return &revocation{Handler: admission.NewHandler(admission.Create, admission.Delete)}
}

// SetRevoker implements WantsRevoker.
func (p *revocation) SetRevoker(revoker Revoker) { p.revoker = revoker }

// ValidateInitialization implements admission.InitializationValidator.
func (p *revocation) ValidateInitialization() error {
	if p.revoker == nil {
		return errors.New("missing what finds the certificates of Revocations")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *revocation) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certplane.Revocations.GroupResource() || a.GetSubresource() != "" {
		return nil
	}
	of := a.GetObject()
	if a.GetOperation() == admission.Delete {
		of = a.GetOldObject()
	}
	loose, ok := of.(*unstructured.Unstructured)
	if !ok {
		return nil // a deletion of what does not exist
	}
	object := &v1alpha1.Revocation{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, object); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if a.GetOperation() == admission.Delete {
		return p.revoker.Delete(object)
	}
	return p.revoker.Create(ctx, a.GetUserInfo(), object)
}
