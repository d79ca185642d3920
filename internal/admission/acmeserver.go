package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	"github.com/certplane/certplane/internal/admission/certplane"
)

// byRights decides which users may write objects of certplane.dev that use the rights of others.
type byRights struct {
	*admission.Handler
	of    func(schema.GroupResource) bool
	check func(context.Context, certplane.Write) (warnings []string, refusal *apierrors.StatusError)
}

var _ admission.ValidationInterface = &byRights{}

func newACMEServer(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	checks := certplane.NewACME(access{authz}.authorize)
	return &byRights{admission.NewHandler(admission.Create, admission.Update, admission.Delete), certplane.IsACME, checks.Validate}
}

func newTrustBundle(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return &byRights{
		admission.NewHandler(admission.Create, admission.Update),
		func(resource schema.GroupResource) bool { return resource == certplane.TrustBundles.GroupResource() },
		func(ctx context.Context, w certplane.Write) ([]string, *apierrors.StatusError) {
			return nil, certplane.CheckTrustBundle(ctx, access{authz}.authorize, w)
		},
	}
}

// Validate implements admission.ValidationInterface.
func (p *byRights) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !p.of(a.GetResource().GroupResource()) {
		return nil
	}
	w := certplane.Write{
		Request:  certplane.Request{Operation: admissionv1.Operation(a.GetOperation()), Subresource: a.GetSubresource(), Name: a.GetName()},
		Resource: a.GetResource().GroupResource(), Namespace: a.GetNamespace(), User: userOf(a),
	}
	w.Object, w.Old = readObjects(a)
	warnings, refusal := p.check(ctx, w)
	for _, text := range warnings {
		warning.AddWarning(ctx, "", text)
	}
	if refusal != nil { // a nil pointer would be an error
		return refusal
	}
	return nil
}
