package certpolicy

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policies"
	policy "github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/protection"
)

// ObjectWrite is a write of a policy or of an exception.
type ObjectWrite struct {
	Operation   admissionv1.Operation
	Resource    schema.GroupResource
	Subresource string
	User        authenticationv1.UserInfo
	// Impersonator is the name of the user who impersonates User; webhooks do not
	// receive it.
	Impersonator string
	// Object is the new object and Old the stored one; each may be nil.
	Object, Old *unstructured.Unstructured
}

// IsPolicy reports whether a resource has policies, including the ones of
// approver-policy, or exceptions.
func IsPolicy(resource schema.GroupResource) bool {
	return resource == policies.PoliciesResource.GroupResource() || resource == policies.ExceptionsResource.GroupResource() ||
		resource == policies.RequestPoliciesResource.GroupResource()
}

// ValidateObject refuses policies and exceptions that cannot be evaluated, with a cause
// for each field; policies and exceptions that permit more than their author may
// approve; and changes and deletions of protected objects with too few people. It
// checks only new specs: objects accepted under other rules can still be labelled and
// deleted.
func (c *Checks) ValidateObject(ctx context.Context, w ObjectWrite) Outcome {
	switch {
	case w.Operation == admissionv1.Delete:
		if w.Old == nil {
			return Outcome{}
		}
		return Outcome{Refusal: c.checkProtection(w, (*protection.Write).MayDelete)}
	case !writes(w.Operation) || w.Subresource != "" || w.Object == nil:
		return Outcome{}
	}
	outcome := c.validateSpec(ctx, w)
	if outcome.Refusal == nil {
		outcome.Refusal = c.checkProtection(w, (*protection.Write).Validate)
	}
	return outcome
}

// validateSpec is ValidateObject without regard to protection.
func (c *Checks) validateSpec(ctx context.Context, w ObjectWrite) Outcome {
	if w.sameSpec() {
		return Outcome{}
	}
	switch w.Resource {
	case policies.PoliciesResource.GroupResource():
		return c.validatePolicy(ctx, w)
	case policies.ExceptionsResource.GroupResource():
		return c.validateException(ctx, w)
	case policies.RequestPoliciesResource.GroupResource():
		return c.validateRequestPolicy(w)
	default:
		return Outcome{}
	}
}

func (w ObjectWrite) sameSpec() bool {
	return w.Old != nil && reflect.DeepEqual(w.Old.Object["spec"], w.Object.Object["spec"])
}

func (w ObjectWrite) invalid(kind string, errs field.ErrorList) *apierrors.StatusError {
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), w.Object.GetName(), errs)
}

func unreadable(err error) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())}
}

func (c *Checks) validatePolicy(ctx context.Context, w ObjectWrite) Outcome {
	p, err := policies.PolicyFrom(w.Object)
	if err != nil {
		return Outcome{Refusal: w.invalid("CertificatePolicy", unreadable(err))}
	}
	compiled, errs, warnings := policy.Compile(p)
	if len(errs) > 0 {
		return Outcome{Warnings: warnings, Refusal: w.invalid("CertificatePolicy", errs)}
	}
	outcome := Outcome{Warnings: warnings}
	var old *v1alpha1.CertificatePolicySpec
	if w.Old != nil {
		if stored, err := policies.PolicyFrom(w.Old); err == nil {
			old = &stored.Spec // otherwise it could not be evaluated, so it has allowed nothing
		}
	}
	if protection.AllowsMore(&p.Spec, old) {
		outcome.Refusal = c.refuseEscalation(ctx, w, p)
	}
	if outcome.Refusal == nil {
		if text := c.policies.Advice().NotCounted(ctx, &p.Spec); text != "" && (old == nil || text != c.policies.Advice().NotCounted(ctx, old)) {
			outcome.Warnings = append(outcome.Warnings, cutWarning("spec.match.signers: "+text))
		}
		outcome.Warnings = append(outcome.Warnings, c.lookBack(ctx, compiled, &p.Spec)...)
	}
	return outcome
}

// maxException is how far ahead exceptions may end.
const maxException = 90 * 24 * time.Hour

func (c *Checks) validateException(ctx context.Context, w ObjectWrite) Outcome {
	x, err := policies.ExceptionFrom(w.Object)
	if err != nil {
		return Outcome{Refusal: w.invalid("CertificatePolicyException", unreadable(err))}
	}
	_, errs := policy.CompileException(x)
	if end := x.Spec.NotAfter; end.Sub(c.policies.Now()) > maxException {
		errs = append(errs, field.Invalid(field.NewPath("spec", "notAfter"), end.UTC().Format(time.RFC3339), "must be at most 90 days ahead"))
	}
	if len(errs) > 0 {
		return Outcome{Refusal: w.invalid("CertificatePolicyException", errs)}
	}
	for _, name := range x.Spec.Policies {
		if refusal := c.refuseWithout(ctx, w, onPolicies("except", name), fmt.Sprintf(`giving exceptions from the policy %q needs the verb "except" on certificatepolicies %q of %s`, name, name, v1alpha1.GroupName)); refusal != nil {
			return Outcome{Refusal: refusal}
		}
	}
	return Outcome{}
}

// validateRequestPolicy refuses policies of approver-policy as its webhook does,
// where they are enforced.
func (c *Checks) validateRequestPolicy(w ObjectWrite) Outcome {
	if !c.policies.Settings().CertificateRequestPolicies {
		return Outcome{}
	}
	kind := approverpolicy.GroupVersion.WithKind(approverpolicy.Kind).GroupKind()
	p, err := policies.RequestPolicyFrom(w.Object)
	if err != nil {
		return Outcome{Refusal: apierrors.NewInvalid(kind, w.Object.GetName(), unreadable(err))}
	}
	if _, errs := crp.Compile(p); len(errs) > 0 {
		return Outcome{Refusal: apierrors.NewInvalid(kind, p.Name, errs)}
	}
	return Outcome{}
}

// onPolicies returns a right on a policy.
func onPolicies(verb, name string) authorizationv1.ResourceAttributes {
	resource := policies.PoliciesResource
	return authorizationv1.ResourceAttributes{Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Name: name}
}

// refuseWithout refuses a write unless its user has a right.
func (c *Checks) refuseWithout(ctx context.Context, w ObjectWrite, right authorizationv1.ResourceAttributes, message string) *apierrors.StatusError {
	switch allowed, err := c.authorize(ctx, w.User, right); {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("asking what user %q may do: %w", w.User.Username, err))
	case !allowed:
		return forbidden(w.Resource, w.Object.GetName(), message)
	default:
		return nil
	}
}

// refuseEscalation refuses an Allow policy that approves more than its author may
// approve.
func (c *Checks) refuseEscalation(ctx context.Context, w ObjectWrite, p *v1alpha1.CertificatePolicy) *apierrors.StatusError {
	const otherwise = `, or the verb "escalate" on certificatepolicies of ` + v1alpha1.GroupName
	for _, name := range p.Spec.Match.Signers {
		allowed, err := c.mayApproveAll(ctx, w.User, name, p.Spec.Match.Kinds)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if !allowed {
			return c.refuseWithout(ctx, w, onPolicies("escalate", p.Name), fmt.Sprintf(
				`an Allow policy for %q needs the verb "approve" on signers %q of %s`, name, name, approvingGroups(name, p.Spec.Match.Kinds))+otherwise)
		}
	}
	return nil
}

// mayApproveAll reports whether a user may approve for every signer that a pattern in
// match.signers names: it checks the right with the text of the pattern, because
// signers are not objects.
func (c *Checks) mayApproveAll(ctx context.Context, user authenticationv1.UserInfo, name string, kinds []v1alpha1.RequestKind) (bool, error) {
	for _, group := range rightGroups(name, kinds) {
		for _, granted := range approvalNames(name) {
			allowed, err := c.authorize(ctx, user, authorizationv1.ResourceAttributes{Verb: "approve", Group: group, Version: "*", Resource: "signers", Name: granted})
			if err != nil {
				return false, fmt.Errorf("asking whether user %q may approve for %s: %w", user.Username, granted, err)
			}
			if allowed {
				return true, nil
			}
		}
	}
	return false, nil
}

func approvingGroups(name string, kinds []v1alpha1.RequestKind) string {
	groups := rightGroups(name, kinds)
	if len(groups) == 1 {
		return groups[0]
	}
	return groups[0] + " or " + groups[1]
}

// onlyRequests are the kinds of a policy that is only about CertificateRequests.
var onlyRequests = []v1alpha1.RequestKind{v1alpha1.CertificateRequests}

// rightGroups returns the API groups in which the right to approve for a signer
// is granted.
func rightGroups(name string, kinds []v1alpha1.RequestKind) []string {
	if isIssuer(name) || slices.Equal(kinds, onlyRequests) {
		return []string{certificatesGroup, certManagerGroup}
	}
	return []string{certificatesGroup}
}
