package certpolicy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Decide decides about a request. The result depends only on the set and the input; the
// order of policies, lists and their creation does not matter. It fills in everything
// but the ID and the duration. It is safe for concurrent use. in must not be modified
// during the call.
func (s *Set) Decide(in Input) *v1alpha1.PolicyDecision {
	decision, _ := s.DecideVotes(in)
	return decision
}

// DecideVotes is Decide, and returns the people that the policies require also; none if
// no people have to approve.
func (s *Set) DecideVotes(in Input) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
	return s.Opinions(in).Decide(in.Stage, in.Time, in.Votes)
}

// Opinions asks the policies about a request. Their opinions do not depend on the stage
// and on votes.
func (s *Set) Opinions(in Input) *Opinions { return s.opinions(in, nil) }

// opinions is Opinions with the results of expressions for the same request.
func (s *Set) opinions(in Input, earlier expression.Results) *Opinions {
	all := &Opinions{set: s, in: in}
	e := newEvaluation(&in)
	e.earlier = earlier
	all.requester = e.requester
	candidates := s.candidates(in.Request.Kind, SignerName(in.Request))
	if len(candidates) > 0 {
		e.content, all.unreadable = contentOf(&in)
	}
	for _, p := range candidates {
		switch p.spec.EffectiveMode() {
		case v1alpha1.PolicyEnforce:
			all.opinions = append(all.opinions, all.ask(e, p))
		case v1alpha1.PolicyShadow, v1alpha1.PolicyWarn:
			all.tried = append(all.tried, all.ask(e, p))
		}
	}
	all.cost, all.results, all.request = e.spent(), e.results(), all.decided()
	all.lifetime, all.forCA = asked(e)
	all.considered = all.consideredPolicies()
	all.in.Request = all.in.Request.Unparsed()
	return all
}

// Decide decides about the request with votes. It fills in everything but the ID and the
// duration.
func (all *Opinions) Decide(stage v1alpha1.DecisionStage, now time.Time, votes []quorum.Vote) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
	d := (decider{Opinions: all, now: now, votes: votes}).conclude(all.opinions)
	decision := &v1alpha1.PolicyDecision{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PolicyDecision"},
		Time:     metav1.NewTime(now), Stage: stage, Request: all.request, Set: all.set.digest,
		Outcome: d.outcome, Reason: d.reason, Violations: d.violations, Open: d.open,
		People: d.people, Renews: d.renews, Considered: slices.Clone(all.considered), Shadow: d.shadow(), Cost: all.cost,
	}
	switch {
	case d.builtIn != "":
		decision.Policy = &v1alpha1.DecidingPolicy{Name: d.builtIn}
	case d.policy != nil:
		decision.Policy = &v1alpha1.DecidingPolicy{Name: d.policy.name, Generation: d.policy.generation, Digest: d.policy.digest}
	}
	decision.Message = cmp.Or(d.message, all.set.message(d.violations))
	return decision, d.requirements
}

// decider makes one decision: conclude sets the fields below votes.
type decider struct {
	*Opinions
	now   time.Time
	votes []quorum.Vote

	outcome         v1alpha1.DecisionOutcome
	reason, message string
	policy          *Policy
	// builtIn is the name of what allows the request if it is not a CertificatePolicy:
	// a built-in policy or a CertificateRequestPolicy.
	builtIn      string
	violations   []v1alpha1.PolicyViolation
	open         []v1alpha1.OpenCondition
	people       *v1alpha1.PeopleDecision
	requirements []quorum.Requirement
	renews       *v1alpha1.DecidedRenewal
}

// ask returns the opinion of a policy. Of a request that cannot be judged, its
// kind, signer and requester decide whether the policy is about it.
func (all *Opinions) ask(e *evaluation, p *Policy) *opinion {
	if all.unreadable == nil {
		return new(p.evaluate(e, all.set.exceptions))
	}
	o := &opinion{policy: p, applies: true}
	if p.matchBroken {
		return o
	}
	if p.match.requesters != nil {
		if v := p.match.requesters(e); v.no {
			o.applies, o.because = false, "match.requesters: "+v.because
			return o
		}
	}
	o.findings = []finding{{at: "request", reason: ReasonUnreadable, field: "request", message: all.unreadable.Error()}}
	return o
}

// bestOf returns the opinion of the Allow policy that allows the request; nil if none
// holds. Automatic ranks before People, People before Leave.
func bestOf(opinions []*opinion) *opinion {
	var best *opinion
	for _, o := range opinions {
		if o.policy.spec.Effect != v1alpha1.PolicyAllow || !o.holds() {
			continue
		}
		if best == nil || rank(o) < rank(best) { // the first by name of equal ones
			best = o
		}
	}
	return best
}

func rank(o *opinion) int {
	switch o.policy.approval() {
	case v1alpha1.ApproveAutomatic:
		return 0
	case v1alpha1.ApprovePeople:
		return 1
	}
	return 2
}

// sorted are opinions by their effect.
type sorted struct {
	limits, allows []*opinion // those that apply
	rest           []*opinion
}

func sortOpinions(opinions []*opinion) sorted {
	var s sorted
	for _, o := range opinions {
		switch {
		case !o.applies:
		case o.policy.spec.Effect == v1alpha1.PolicyLimit:
			s.limits = append(s.limits, o)
		case o.policy.spec.Effect == v1alpha1.PolicyAllow:
			s.allows = append(s.allows, o)
		default:
			s.rest = append(s.rest, o)
		}
	}
	return s
}

// conclude returns the decider with its conclusions from opinions, which are in the order
// of the policies' names. CertificateRequestPolicies that approve the request are one
// more Allow policy; what they deny, an Allow policy can still allow.
func (d decider) conclude(opinions []*opinion) decider {
	s := sortOpinions(opinions)
	d = decider{Opinions: d.Opinions, now: d.now, votes: d.votes, open: openConditions(slices.Concat(s.limits, s.allows, s.rest))}
	violations := slices.Concat(violationsOf(s.limits), violationsOf(s.allows))
	switch {
	case d.unreadable != nil && len(s.limits)+len(s.allows)+len(s.rest) > 0:
		return d.deny(slices.Concat(s.limits, s.allows, s.rest)[0].policy, d.unreadableViolations(s))
	case anyOf(s.limits, func(o *opinion) bool { return o.violated() > 0 }):
		return d.deny(firstViolated(nearest(s.limits)), violations)
	case anyOf(s.limits, undecided):
		return d.wait(s.limits)
	}
	best, valid := bestOf(s.allows), available(s.allows)
	others := d.in.Facts.RequestPolicies
	switch {
	case best != nil && rank(best) == 0:
	case says(others, v1alpha1.OutcomeApprove):
		best, d.builtIn = nil, RequestPolicyPrefix+others.Policy
	case best != nil && rank(best) == 1:
	case says(others, v1alpha1.OutcomeWait), best != nil && says(others, v1alpha1.OutcomeDeny):
		return d.as(others)
	case best != nil:
	case anyOf(valid, undecided), len(valid) < len(s.allows) && len(valid)+len(s.rest) > 0:
		return d.wait(s.allows)
	case len(valid) > 0:
		return d.deny(nearest(valid)[0].policy, violationsOf(valid))
	case says(others, v1alpha1.OutcomeDeny):
		return d.as(others)
	case d.builtInPolicy() != "":
		d.builtIn = d.builtInPolicy()
	case anyOf(s.rest, undecided):
		return d.wait(s.rest)
	case len(s.rest) > 0 && !d.in.Facts.BuiltIn.Known && d.in.Request.SignerName == approval.SignerName:
		return d.waitFor(s.rest[0], "whether a built-in policy allows the request")
	case len(s.rest) > 0:
		return d.notAllowed(s.rest[0].policy)
	}
	// What an exception covers is on record also of a request that is allowed.
	d.violations = violationsOf(s.limits)
	if best != nil {
		d.policy = best.policy
		d.violations = append(d.violations, violationsOf([]*opinion{best})...)
	}
	return d.askPeople(s.limits, best)
}

// askPeople concludes whether enough people have approved.
func (d decider) askPeople(limits []*opinion, best *opinion) decider {
	for _, o := range limits {
		if o.policy.wantsPeople() {
			d.requirements = append(d.requirements, o.policy.requirement())
		}
	}
	if best != nil && best.policy.wantsPeople() {
		d.requirements = append(d.requirements, best.policy.requirement())
	}
	switch {
	case len(d.requirements) > 0:
		return d.count()
	case d.builtIn != "", best != nil && best.policy.approval() == v1alpha1.ApproveAutomatic:
		d.outcome = v1alpha1.OutcomeApprove
	default:
		d.outcome = v1alpha1.OutcomeLeave
	}
	return d
}

func (d decider) count() decider {
	if d.policy == nil {
		d.policy = d.set.Policy(d.requirements[0].Policy)
	}
	counted := quorum.Count(d.requirements, d.votes, d.requester, d.now)
	if !counted.Met {
		if d = d.renewed(); len(d.requirements) == 0 {
			d.outcome = v1alpha1.OutcomeApprove
			return d
		}
		counted = quorum.Count(d.requirements, d.votes, d.requester, d.now)
	}
	d.people = &counted
	if counted.Met {
		d.outcome = v1alpha1.OutcomeApprove
		return d
	}
	if d.in.SealsUnknown {
		return d.waitForSeals()
	}
	d.outcome, d.reason = v1alpha1.OutcomeNeedPeople, ReasonApprovalsMissing
	d.message = progress(counted.Requirements)
	return d
}

// AtPeople is the address of the people that a policy requires.
const AtPeople = "approval.people"

// waitForSeals waits until it is known whether enough people have approved.
func (d decider) waitForSeals() decider {
	const fact = "whether the approvals that it has verify"
	for _, req := range d.requirements {
		d.open = append(d.open, v1alpha1.OpenCondition{Policy: req.Policy, At: AtPeople, Fact: fact})
	}
	d.outcome, d.reason, d.people = v1alpha1.OutcomeWait, ReasonFactMissing, nil
	d.message = "certificate policy " + d.requirements[0].Policy + ": not known yet: " + fact
	return d
}

// progress describes the missing people. quorum.Progress names the policies if there
// are several.
func progress(reqs []v1alpha1.PeopleMissing) string {
	open := slices.DeleteFunc(slices.Clone(reqs), func(m v1alpha1.PeopleMissing) bool { return len(m.Missing) == 0 })
	if len(open) == 1 {
		return "certificate policy " + open[0].Policy + ": " + quorum.Progress(open)
	}
	return quorum.Progress(open)
}

func (d decider) deny(by *Policy, violations []v1alpha1.PolicyViolation) decider {
	d.outcome, d.policy, d.violations = v1alpha1.OutcomeDeny, by, violations
	for _, v := range violations {
		if v.Exception == "" {
			d.reason = v.Reason
			break
		}
	}
	return d
}

func (d decider) notAllowed(by *Policy) decider {
	return d.deny(by, []v1alpha1.PolicyViolation{{
		Policy: by.name, At: "effect", Reason: ReasonNotAllowed, Message: "no Allow policy is about this request",
	}})
}

func (d decider) wait(opinions []*opinion) decider {
	d.outcome = v1alpha1.OutcomeWait
	for _, o := range opinions {
		if o.unavailable {
			d.reason, d.policy = ReasonUnavailable, o.policy
			d.message = "certificate policy " + o.policy.name + " is not valid: requests wait until it is corrected"
			return d
		}
	}
	d.reason = ReasonFactMissing
	var facts []string
	for _, o := range opinions {
		for _, f := range o.open {
			if d.policy == nil {
				d.policy = o.policy
			}
			if !slices.Contains(facts, f.open) {
				facts = append(facts, f.open)
			}
		}
	}
	if d.policy != nil {
		d.message = "certificate policy " + d.policy.name + ": not known yet: " + strings.Join(facts, ", ")
	}
	return d
}

// says reports whether CertificateRequestPolicies are enforced and have this outcome.
func says(ruling *v1alpha1.RequestPoliciesRuling, outcome v1alpha1.DecisionOutcome) bool {
	return ruling != nil && ruling.Outcome == outcome
}

// as concludes the decision of CertificateRequestPolicies.
func (d decider) as(ruling *v1alpha1.RequestPoliciesRuling) decider {
	d.outcome, d.reason, d.message = ruling.Outcome, ruling.Reason, ruling.Message
	return d
}

// waitFor waits for a fact that a policy needs.
func (d decider) waitFor(o *opinion, fact string) decider {
	waiting := *o
	waiting.open = []finding{{at: "effect", open: fact}}
	return d.wait([]*opinion{&waiting})
}

// builtInPolicy returns the built-in policy that allows the request, or "".
func (d decider) builtInPolicy() string {
	if name := d.in.Facts.BuiltIn.Value; name != nil {
		return *name
	}
	return ""
}

func anyOf(opinions []*opinion, is func(*opinion) bool) bool {
	return slices.ContainsFunc(opinions, is)
}

// undecided reports whether it is not known yet whether the policy permits the request.
func undecided(o *opinion) bool { return o.unavailable || len(o.open) > 0 && o.violated() == 0 }

// available returns the opinions of policies that are valid. An invalid Allow policy
// allows nothing; it only prevents a final denial because of it.
func available(opinions []*opinion) []*opinion {
	return slices.DeleteFunc(slices.Clone(opinions), func(o *opinion) bool { return o.unavailable })
}

func firstViolated(opinions []*opinion) *Policy {
	return opinions[slices.IndexFunc(opinions, func(o *opinion) bool { return o.violated() > 0 })].policy
}

// nearest returns opinions with the fewest violations first.
func nearest(opinions []*opinion) []*opinion {
	opinions = slices.Clone(opinions)
	slices.SortStableFunc(opinions, func(a, b *opinion) int { return cmp.Compare(a.violated(), b.violated()) })
	return opinions
}
