package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/admission/certplane"
)

// trustBundleAuthor checks which users may have TrustBundles write ClusterTrustBundles.
type trustBundleAuthor struct {
	*admission.Handler
	access access
}

var _ admission.ValidationInterface = &trustBundleAuthor{}

func newTrustBundle(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return &trustBundleAuthor{admission.NewHandler(admission.Create, admission.Update), access{authz}}
}

// Validate implements admission.ValidationInterface.
func (p *trustBundleAuthor) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certplane.TrustBundles.GroupResource() {
		return nil
	}
	r := certplane.Request{Operation: admissionv1.Operation(a.GetOperation()), Subresource: a.GetSubresource(), Name: a.GetName()}
	r.Object, r.Old = readObjects(a)
	if refusal := certplane.CheckTrustBundle(ctx, p.access.authorize, userOf(a), r); refusal != nil { // a nil pointer would be an error
		return refusal
	}
	return nil
}
