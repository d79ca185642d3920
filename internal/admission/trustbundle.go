package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/admission/certplane"
	"github.com/certplane/certplane/internal/admission/certpolicy"
	"github.com/certplane/certplane/internal/policies"
)

// trustTargets seals TrustBundles whose author may write their ClusterTrustBundle, and
// refuses others.
type trustTargets struct {
	*admission.Handler
	access access
	checks *certplane.TrustChecks
}

var (
	_ admission.MutationInterface = &trustTargets{}
	_ WantsPolicies               = &trustTargets{}
)

func newTrustBundle(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return &trustTargets{Handler: admission.NewHandler(admission.Create, admission.Update), access: access{authz}}
}

// SetPolicies implements WantsPolicies: seals are made with the key that seals approvals.
func (p *trustTargets) SetPolicies(all *policies.Policies, _ func(context.Context) user.Info, _ func(context.Context) *certpolicy.Call) {
	if all != nil {
		p.checks = certplane.NewTrust(p.access.authorize, all.Seals())
	}
}

// Admit implements admission.MutationInterface.
func (p *trustTargets) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if p.checks == nil || a.GetResource().GroupResource() != certplane.TrustBundles.GroupResource() {
		return nil
	}
	w := certplane.TrustWrite{
		Request:   certplane.Request{Operation: admissionv1.Operation(a.GetOperation()), Subresource: a.GetSubresource(), Name: a.GetName()},
		Namespace: a.GetNamespace(), User: userOf(a),
	}
	w.Object, w.Old = readObjects(a)
	if refusal := p.checks.Admit(ctx, w); refusal != nil { // a nil pointer would be an error
		return refusal
	}
	return nil
}
