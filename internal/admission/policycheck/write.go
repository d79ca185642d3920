package policycheck

import (
	"context"
	"fmt"
	"reflect"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// maxException is how far ahead the end of an exception may be.
const maxException = 90 * 24 * time.Hour

// Write is a write of a policy or of an exception. Old is nil if it is created.
type Write struct {
	Target
	Object, Old *unstructured.Unstructured
	User        request.Requester
}

// sameSpec reports whether only metadata or the status changes.
func (w Write) sameSpec() bool {
	return w.Old != nil && reflect.DeepEqual(w.Old.Object["spec"], w.Object.Object["spec"])
}

func (w Write) invalid(kind string, errs field.ErrorList) *apierrors.StatusError {
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), w.Name, errs)
}

// Policy refuses a policy that cannot be evaluated, and one by which its author
// would approve what the author may not approve.
func (c *Checks) Policy(ctx context.Context, w Write) (result Result) {
	if w.sameSpec() {
		return result
	}
	const kind = "CertificatePolicy"
	p, err := policies.PolicyFrom(w.Object)
	if err != nil {
		result.Refusal = w.invalid(kind, field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())})
		return result
	}
	_, errs, warnings := certpolicy.Compile(p)
	if len(errs) > 0 {
		result.Refusal = w.invalid(kind, errs)
		return result
	}
	result.Warnings = warnings
	if !approves(p) {
		return result
	}
	for _, signer := range p.Spec.Match.Signers {
		switch allowed, err := c.mayApprove(ctx, w.User, signer); {
		case err != nil:
			result.Refusal = unavailable(err)
			return result
		case !allowed:
			result.Refusal = w.forbidden(fmt.Sprintf("spec.match.signers: user %q may not approve for the signer %q: "+
				"this needs the verb approve on signers %q, or the verb escalate on certificatepolicies", w.User.Username, signer, signer))
			return result
		}
	}
	return result
}

// approves reports whether a policy approves requests.
func approves(p *v1alpha1.CertificatePolicy) bool {
	enforced := p.Spec.Mode == "" || p.Spec.Mode == v1alpha1.PolicyEnforce
	return enforced && p.Spec.Effect == v1alpha1.PolicyAllow && (p.Spec.Approval == nil || p.Spec.Approval.Mode != v1alpha1.ApproveLeave)
}

// mayApprove reports whether a user may approve for a signer, whose pattern is
// taken literally, or may write policies beyond the user's own rights.
func (c *Checks) mayApprove(ctx context.Context, who request.Requester, signer string) (bool, error) {
	asked := []certpolicy.Access{{Verb: "approve", Group: certificatesv1.GroupName, Resource: "signers", Name: signer}}
	if _, isIssuer := certmanager.ParseSignerName(signer); isIssuer {
		asked = append(asked, certpolicy.Access{Verb: "approve", Group: certmanager.Group, Resource: "signers", Name: signer})
	}
	asked = append(asked, certpolicy.Access{Verb: "escalate", Group: v1alpha1.GroupName, Resource: policies.PoliciesResource.Resource})
	for _, what := range asked {
		if allowed, err := c.authorize(ctx, who, what); err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

// Exception refuses an exception that is not valid, or from policies from which
// its author may not except.
func (c *Checks) Exception(ctx context.Context, w Write) (result Result) {
	if w.sameSpec() {
		return result
	}
	const kind = "CertificatePolicyException"
	x, err := policies.ExceptionFrom(w.Object)
	if err != nil {
		result.Refusal = w.invalid(kind, field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())})
		return result
	}
	_, errs := certpolicy.CompileException(x)
	if x.Spec.NotAfter.After(c.clock.Now().Add(maxException)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "notAfter"), x.Spec.NotAfter.Format(time.RFC3339), "must be at most 90 days ahead"))
	}
	if len(errs) > 0 {
		result.Refusal = w.invalid(kind, errs)
		return result
	}
	for _, policy := range x.Spec.Policies {
		what := certpolicy.Access{Verb: "except", Group: v1alpha1.GroupName, Resource: policies.PoliciesResource.Resource, Name: policy}
		switch allowed, err := c.authorize(ctx, w.User, what); {
		case err != nil:
			result.Refusal = unavailable(err)
			return result
		case !allowed:
			result.Refusal = w.forbidden(fmt.Sprintf("spec.policies: user %q may not except requests from the policy %s: this needs the verb except on certificatepolicies %q",
				w.User.Username, policy, policy))
			return result
		}
	}
	return result
}
