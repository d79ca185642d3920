package admission

import (
	"context"
	"errors"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// requestLifetime makes sure that requests for certificates are deleted when their time
// is over, and not when a user removes a finalizer. Owners do not matter: they can only
// cause a request to be deleted sooner. It runs before policies and webhooks: the
// operator wants the finalizers that they add.
type requestLifetime struct {
	*admission.Handler
	authz authorizer.UnconditionalAuthorizer
}

var _ admission.MutationInterface = requestLifetime{}

func newRequestLifetime(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return requestLifetime{admission.NewHandler(admission.Create), authz}
}

// Admit changes nothing. It refuses finalizers in new requests unless the user
// may update requests: only an update could remove them.
func (p requestLifetime) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if a.GetSubresource() != "" || resource != certificatesv1.Resource("certificatesigningrequests") && resource != podRequests {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return unexpected(a)
	}
	if len(object.GetFinalizers()) == 0 || p.mayUpdate(ctx, a) {
		return nil
	}
	return admission.NewForbidden(a, errors.New("metadata.finalizers: setting finalizers requires the permission to update requests; leave them out"))
}

func (p requestLifetime) mayUpdate(ctx context.Context, a admission.Attributes) bool {
	if a.GetUserInfo() == nil {
		return false
	}
	decision, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
		User:            a.GetUserInfo(),
		Verb:            "update",
		APIGroup:        a.GetResource().Group,
		APIVersion:      a.GetResource().Version,
		Resource:        a.GetResource().Resource,
		Namespace:       a.GetNamespace(),
		Name:            a.GetName(),
		ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}
