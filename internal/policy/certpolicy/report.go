package certpolicy

import (
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// decided identifies the request.
func (all *Opinions) decided() v1alpha1.DecidedRequest {
	r := &all.in.Request
	id := v1alpha1.DecidedRequest{
		Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID,
		Signer: SignerName(*r), Requester: all.requester.Username, Digest: quorum.Digest(*r),
	}
	if origin := all.in.Facts.Origin; origin.Known {
		id.Origin = v1alpha1.RequestOrigin(originText(origin.Value))
	}
	return id
}

// violationsOf returns the violations of policies, the nearest policy first.
func violationsOf(opinions []*opinion) []v1alpha1.PolicyViolation {
	var list []v1alpha1.PolicyViolation
	for _, o := range nearest(opinions) {
		for _, f := range o.findings {
			list = append(list, v1alpha1.PolicyViolation{
				Policy: o.policy.name, At: f.at, Reason: f.reason, Field: f.field, Value: f.value,
				WouldPass: f.would, Message: f.message, Exception: f.exception,
			})
		}
	}
	return list
}

// unreadableViolations: one violation is enough for a request that cannot be read.
func (d decider) unreadableViolations(s sorted) []v1alpha1.PolicyViolation {
	var list []v1alpha1.PolicyViolation
	for _, o := range append(append(append([]*opinion{}, s.limits...), s.allows...), s.rest...) {
		list = append(list, v1alpha1.PolicyViolation{
			Policy: o.policy.name, At: "request", Reason: ReasonUnreadable, Field: "request", Message: d.unreadable.Error(),
		})
		break
	}
	return list
}

func openConditions(opinions []*opinion) []v1alpha1.OpenCondition {
	var list []v1alpha1.OpenCondition
	for _, o := range opinions {
		for _, f := range o.open {
			list = append(list, v1alpha1.OpenCondition{Policy: o.policy.name, At: f.at, Fact: f.open})
		}
	}
	return list
}

// consideredPolicies returns the opinion of each enforced policy for the signer.
func (all *Opinions) consideredPolicies() []v1alpha1.ConsideredPolicy {
	if len(all.opinions) == 0 {
		return nil
	}
	list := make([]v1alpha1.ConsideredPolicy, 0, len(all.opinions))
	for _, o := range all.opinions {
		one := v1alpha1.ConsideredPolicy{
			Policy: o.policy.name, Effect: o.policy.spec.Effect, Applies: o.applies, Holds: o.holds(),
			Open: len(o.open), Violations: o.violated(),
		}
		switch {
		case !o.applies:
			one.Because = o.because
		case o.unavailable:
			one.Because = "the policy is not valid: " + cut(o.policy.Err().Error(), 1024)
		}
		list = append(list, one)
	}
	return list
}

// shadow returns the changes that each policy in the modes Shadow and Warn would make
// on its own.
func (d decider) shadow() []v1alpha1.ShadowDecision {
	var list []v1alpha1.ShadowDecision
	for _, o := range d.tried {
		would := d.conclude(d.instead(o))
		one := v1alpha1.ShadowDecision{
			Policy: o.policy.name, Mode: o.policy.spec.EffectiveMode(), Outcome: would.outcome, Differs: would.outcome != d.outcome,
		}
		if one.Differs {
			one.Message, one.Violations = would.message, would.violations
			if one.Message == "" {
				one.Message = d.set.message(would.violations)
			}
		}
		list = append(list, one)
	}
	return list
}

// instead returns the opinions with one more, which replaces the opinion of the policy
// that its policy replaces.
func (d decider) instead(shadow *opinion) []*opinion {
	var opinions []*opinion
	added := false
	for _, o := range d.opinions {
		if !added && strings.Compare(shadow.policy.name, o.policy.name) < 0 {
			opinions, added = append(opinions, shadow), true
		}
		if o.policy.name != shadow.policy.spec.Replaces {
			opinions = append(opinions, o)
		}
	}
	if !added {
		opinions = append(opinions, shadow)
	}
	return opinions
}

// Disclosed returns the violations of a decision that the requester may see. For a
// policy that discloses only reasons, they lack values and the permitted alternatives.
func (s *Set) Disclosed(violations []v1alpha1.PolicyViolation) []v1alpha1.PolicyViolation {
	var list []v1alpha1.PolicyViolation
	for _, v := range violations {
		if v.Exception != "" {
			continue
		}
		if p := s.Policy(v.Policy); p != nil && p.spec.Disclosure == v1alpha1.DiscloseReason {
			subject := v.Field
			if subject == "" {
				subject = "the request"
			}
			v.Message, v.WouldPass, v.Value = subject+" is not permitted ("+v.Reason+")", nil, ""
		}
		list = append(list, v)
	}
	return list
}
