package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	"github.com/certplane/certplane/internal/admission/certplane"
)

// acmeServer decides which users may write objects of the ACME server.
type acmeServer struct {
	*admission.Handler
	checks *certplane.ACMEChecks
}

var _ admission.ValidationInterface = &acmeServer{}

func newACMEServer(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return &acmeServer{
		Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete),
		checks:  certplane.NewACME(access{authz}.authorize),
	}
}

// Validate implements admission.ValidationInterface.
func (p *acmeServer) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !certplane.IsACME(a.GetResource().GroupResource()) {
		return nil
	}
	w := certplane.ACMEWrite{
		Request:  certplane.Request{Operation: admissionv1.Operation(a.GetOperation()), Subresource: a.GetSubresource(), Name: a.GetName()},
		Resource: a.GetResource().GroupResource(), Namespace: a.GetNamespace(), User: userOf(a),
	}
	w.Object, w.Old = readObjects(a)
	warnings, refusal := p.checks.Validate(ctx, w)
	for _, text := range warnings {
		warning.AddWarning(ctx, "", text)
	}
	if refusal != nil { // a nil pointer would be an error
		return refusal
	}
	return nil
}
