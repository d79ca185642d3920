package admission

import (
	"context"
	"errors"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// requestLifetime has requests for certificates go when their time is over, and
// not when somebody removes a finalizer. Owners are of no concern: they can only
// make a request go sooner. It looks before policies and webhooks: what those
// add is their operator's wish.
type requestLifetime struct {
	*admission.Handler
	authz authorizer.UnconditionalAuthorizer
}

var _ admission.MutationInterface = requestLifetime{}

func newRequestLifetime(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return requestLifetime{admission.NewHandler(admission.Create), authz}
}

// Admit changes nothing. It refuses new requests that only who may update them
// could have deleted.
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
	return admission.NewForbidden(a, errors.New("metadata.finalizers: only who may update requests can set finalizers; leave them out"))
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
