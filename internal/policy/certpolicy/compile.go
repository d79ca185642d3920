package certpolicy

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Policy is a compiled policy. It is safe for concurrent use.
type Policy struct {
	name, uid  string
	generation int64
	digest     string
	spec       *v1alpha1.CertificatePolicySpec

	match      matchers
	conditions []condition
	// needs are the facts that the policy can read.
	needs Needs
	// broken is why the policy cannot be evaluated. matchBroken is set if its match
	// cannot be evaluated either.
	broken      field.ErrorList
	matchBroken bool
}

// maxPolicyBytes is the largest size of a specification, in JSON.
const maxPolicyBytes = 256 << 10

// condition returns the findings about a request. It is independent of all other
// conditions.
type condition func(*evaluation) []finding

// Name returns the name of the policy.
func (p *Policy) Name() string { return p.name }

// UID returns the policy's UID; empty if it is not stored.
func (p *Policy) UID() string { return p.uid }

// Digest returns the SHA-256 digest of the specification, in the form
// "sha256:" and hexadecimal digits.
func (p *Policy) Digest() string { return p.digest }

// Generation returns the generation of the policy.
func (p *Policy) Generation() int64 { return p.generation }

// Spec returns the specification. It must not be modified.
func (p *Policy) Spec() *v1alpha1.CertificatePolicySpec { return p.spec }

// Err returns why the policy cannot be evaluated, nil if it can.
func (p *Policy) Err() error {
	if len(p.broken) == 0 {
		return nil
	}
	return p.broken.ToAggregate()
}

// Compile compiles a policy. It is also the validation of policies at a write: a policy
// without errors can be evaluated. It always returns the policy; with errors, requests
// that the policy matches wait. Warnings begin with the field that they are about.
func Compile(p *v1alpha1.CertificatePolicy) (compiled *Policy, errs field.ErrorList, warnings []string) {
	spec := p.Spec.DeepCopy()
	c := &compiler{checker: &checker{}, effect: spec.Effect, policy: &Policy{
		name: p.Name, uid: string(p.UID), generation: p.Generation, digest: digestOf(p.Spec.DeepCopy()), spec: spec,
	}}
	path := field.NewPath("spec")
	if size := len(encoded(spec)); size > maxPolicyBytes {
		c.errs = append(c.errs, field.TooLong(path, "", maxPolicyBytes))
	}
	checkShape(c.checker, path, p.Name, spec)
	c.policy.needs.BuiltIn = spec.Effect == v1alpha1.PolicyDenyRest
	before := len(c.errs)
	matchCompiler{c}.matching(path.Child("match"), spec)
	c.policy.matchBroken = len(c.errs) > before
	if spec.Effect != v1alpha1.PolicyDenyRest {
		c.certificate(path.Child("certificate"), spec.Certificate)
		c.rules(path.Child("rules"), spec.Rules)
		c.quotas(path.Child("quotas"), spec)
	}
	c.approval(path.Child("approval"), spec)
	if spec.Protection != nil {
		c.people(path.Child("protection", "people"), new(spec.Protection.People.Requirement()))
	}
	c.policy.broken = c.errs
	return c.policy, c.errs, c.warnings
}

// compiler compiles the parts of policies. Its sections have their own compilers:
// matchCompiler, nameCompiler, subjectCompiler and termCompiler.
type compiler struct {
	*checker
	effect v1alpha1.PolicyEffect
	policy *Policy
}

// allows reports whether the policy refuses values that it does not mention.
func (c *compiler) allows() bool { return c.effect == v1alpha1.PolicyAllow }

func (c *compiler) add(one condition) { c.policy.conditions = append(c.policy.conditions, one) }

// checker collects the errors in the fields of a policy or an exception.
type checker struct {
	errs     field.ErrorList
	warnings []string
}

func (c *checker) invalid(path *field.Path, value any, detail string) {
	c.errs = append(c.errs, field.Invalid(path, value, detail))
}

func (c *checker) required(path *field.Path, detail string) {
	c.errs = append(c.errs, field.Required(path, detail))
}

func (c *checker) forbidden(path *field.Path, detail string) {
	c.errs = append(c.errs, field.Forbidden(path, detail))
}

func (c *checker) unsupported(path *field.Path, value any, supported []string) {
	c.errs = append(c.errs, field.NotSupported(path, fmt.Sprint(value), supported))
}

func (c *checker) warn(path *field.Path, text string) {
	c.warnings = append(c.warnings, path.String()+": "+text)
}

// atLeast checks a number. The definitions of the API check the same.
func (c *checker) atLeast(path *field.Path, value *int32, least int32) {
	if value != nil && *value < least {
		c.invalid(path, *value, fmt.Sprintf("must be at least %d", least))
	}
}

// oneOf checks a value of an enumeration. The definitions of the API check the
// same; policies from files are only checked here.
func oneOf[T ~string](c *checker, path *field.Path, value T, values ...T) {
	if slices.Contains(values, value) {
		return
	}
	var supported []string
	for _, v := range values {
		supported = append(supported, string(v))
	}
	c.unsupported(path, value, supported)
}

// shape checks the fields that exclude or need each other.
func checkShape(c *checker, path *field.Path, name string, s *v1alpha1.CertificatePolicySpec) {
	oneOf(c, path.Child("effect"), s.Effect, v1alpha1.PolicyAllow, v1alpha1.PolicyLimit, v1alpha1.PolicyDenyRest)
	oneOf(c, path.Child("mode"), s.EffectiveMode(), v1alpha1.PolicyEnforce, v1alpha1.PolicyWarn, v1alpha1.PolicyShadow, v1alpha1.PolicyOff)
	if s.Disclosure != "" {
		oneOf(c, path.Child("disclosure"), s.Disclosure, v1alpha1.DiscloseFull, v1alpha1.DiscloseReason)
	}
	switch mode := s.EffectiveMode(); {
	case s.Replaces == "":
	case mode != v1alpha1.PolicyShadow && mode != v1alpha1.PolicyWarn:
		c.forbidden(path.Child("replaces"), "is only for the modes Shadow and Warn")
	case s.Replaces == name:
		c.invalid(path.Child("replaces"), s.Replaces, "must be another policy")
	}
	if s.Effect != v1alpha1.PolicyDenyRest {
		return
	}
	if s.Certificate != nil {
		c.forbidden(path.Child("certificate"), "a DenyRest policy has no conditions: it denies what no Allow policy is about")
	}
	if len(s.Rules) > 0 {
		c.forbidden(path.Child("rules"), "a DenyRest policy has no conditions: it denies what no Allow policy is about")
	}
	if len(s.Quotas) > 0 {
		c.forbidden(path.Child("quotas"), "a DenyRest policy lets nothing through")
	}
	if s.Approval != nil {
		c.forbidden(path.Child("approval"), "a DenyRest policy approves nothing")
	}
}

func (c *compiler) certificate(path *field.Path, cert *v1alpha1.CertificateConditions) {
	if cert == nil {
		cert = &v1alpha1.CertificateConditions{}
	}
	subjectCompiler{c}.subject(path.Child("subject"), cert.Subject)
	nameCompiler{c}.names(path.Child("names"), cert.Names)
	termCompiler{c}.keys(path.Child("keys"), cert.Keys)
	termCompiler{c}.usages(path.Child("usages"), cert.Usages)
	termCompiler{c}.lifetime(path.Child("lifetime"), cert.Lifetime)
	termCompiler{c}.authority(path.Child("authority"), cert.Authority)
	termCompiler{c}.extensions(path.Child("extensions"), cert.Extensions)
}

func (c *compiler) approval(path *field.Path, s *v1alpha1.CertificatePolicySpec) {
	a := s.Approval
	if a == nil {
		return
	}
	mode := cmp.Or(a.Mode, v1alpha1.ApproveAutomatic)
	oneOf(c.checker, path.Child("mode"), mode, v1alpha1.ApproveAutomatic, v1alpha1.ApprovePeople, v1alpha1.ApproveLeave)
	switch {
	case a.Renewals == "":
	case mode != v1alpha1.ApprovePeople:
		c.forbidden(path.Child("renewals"), "is only for the mode People")
	default:
		oneOf(c.checker, path.Child("renewals"), a.Renewals, v1alpha1.RenewAutomatic, v1alpha1.RenewPeople)
	}
	if a.IssueOnCreate != nil && (mode != v1alpha1.ApproveAutomatic || s.Effect == v1alpha1.PolicyLimit) {
		c.forbidden(path.Child("issueOnCreate"), "is only for the mode Automatic")
	}
	switch {
	case a.People != nil && (mode == v1alpha1.ApproveAutomatic || mode == v1alpha1.ApproveLeave):
		c.forbidden(path.Child("people"), "is only for the mode People")
	case s.Effect == v1alpha1.PolicyLimit && (mode == v1alpha1.ApproveAutomatic || mode == v1alpha1.ApproveLeave):
		c.forbidden(path.Child("mode"), "a Limit approves nothing: it can only require People")
	case mode == v1alpha1.ApprovePeople && a.People == nil:
		c.required(path.Child("people"), "must set how many people have to approve")
	case mode == v1alpha1.ApprovePeople:
		c.people(path.Child("people"), a.People)
		c.policy.needs.Earlier = c.policy.needs.Earlier || a.Renewals == v1alpha1.RenewAutomatic
		if len(s.Match.Kinds) == 0 || slices.Contains(s.Match.Kinds, v1alpha1.PodCertificateRequests) {
			c.required(field.NewPath("spec", "match", "kinds"), "must be given without PodCertificateRequest: pods do not wait for people")
		}
	}
}
