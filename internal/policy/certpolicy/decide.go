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

// Decide decides about a request. The result depends only on the set and the
// input; the order of policies, lists and their creation does not matter. It
// fills in everything but the ID and the time that it took. It is safe for
// concurrent use, and in must not be modified meanwhile.
func (s *Set) Decide(in Input) *v1alpha1.PolicyDecision {
	decision, _ := s.DecideVotes(in)
	return decision
}

// DecideVotes is Decide, and returns also what the policies require of people:
// nothing if none have to approve.
func (s *Set) DecideVotes(in Input) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
	return s.Judge(in).Decide(in.Stage, in.Time, in.Votes)
}

// Judge asks the policies about a request: what they say does not depend on the
// stage and on votes.
func (s *Set) Judge(in Input) *Judgement { return s.judge(in, nil) }

// judge is Judge with the results of expressions for the same request.
func (s *Set) judge(in Input, earlier expression.Results) *Judgement {
	j := &Judgement{set: s, in: in}
	e := newEvaluation(&in)
	e.earlier = earlier
	j.requester = e.requester
	candidates := s.candidates(in.Request.Kind, SignerName(in.Request))
	if len(candidates) > 0 {
		e.content, j.unreadable = contentOf(&in)
	}
	for _, p := range candidates {
		switch p.spec.EffectiveMode() {
		case v1alpha1.PolicyEnforce:
			j.opinions = append(j.opinions, j.ask(e, p))
		case v1alpha1.PolicyShadow, v1alpha1.PolicyWarn:
			j.tried = append(j.tried, j.ask(e, p))
		}
	}
	j.cost, j.results, j.request = e.spent(), e.results(), j.decided()
	j.lifetime, j.forCA = asked(e)
	j.considered = j.consideredPolicies()
	j.in.Request = j.in.Request.Unparsed()
	return j
}

// Decide decides about the request with votes. It fills in everything but the ID
// and the time that it took.
func (j *Judgement) Decide(stage v1alpha1.DecisionStage, now time.Time, votes []quorum.Vote) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
	d := &decider{j, now, votes}
	result := d.outcome(j.opinions)
	decision := &v1alpha1.PolicyDecision{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PolicyDecision"},
		Time:     metav1.NewTime(now), Stage: stage, Request: j.request, Set: j.set.digest,
		Outcome: result.outcome, Reason: result.reason, Violations: result.violations, Open: result.open,
		People: result.people, Renews: result.renews, Considered: slices.Clone(j.considered), Shadow: d.shadow(&result), Cost: j.cost,
	}
	switch {
	case result.builtIn != "":
		decision.Policy = &v1alpha1.DecidingPolicy{Name: result.builtIn}
	case result.policy != nil:
		decision.Policy = &v1alpha1.DecidingPolicy{Name: result.policy.name, Generation: result.policy.generation, Digest: result.policy.digest}
	}
	decision.Message = cmp.Or(result.message, j.set.message(result.violations))
	return decision, result.requirements
}

// decider makes one decision.
type decider struct {
	*Judgement
	now   time.Time
	votes []quorum.Vote
}

// ask returns the opinion of a policy. Of a request that cannot be judged, its
// kind, signer and requester decide whether the policy is about it.
func (j *Judgement) ask(e *evaluation, p *Policy) *opinion {
	if j.unreadable == nil {
		return new(p.evaluate(e, j.set.exceptions))
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
	o.findings = []finding{{at: "request", reason: ReasonUnreadable, field: "request", message: j.unreadable.Error()}}
	return o
}

// bestOf returns the opinion of the Allow policy that allows the request: one
// that needs nobody before one that needs people, and that before one that
// leaves it; nil if none holds.
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

// result is what follows from the opinions of policies.
type result struct {
	outcome         v1alpha1.DecisionOutcome
	reason, message string
	policy          *Policy
	// builtIn is the name of what allows the request if it is no
	// CertificatePolicy: a built-in policy or a CertificateRequestPolicy.
	builtIn      string
	violations   []v1alpha1.PolicyViolation
	open         []v1alpha1.OpenCondition
	people       *v1alpha1.PeopleDecision
	requirements []quorum.Requirement
	renews       *v1alpha1.DecidedRenewal
}

// sorted are opinions by what follows from them.
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

// outcome returns what follows from opinions, which are in the order of the
// policies' names. CertificateRequestPolicies that approve the request are one
// more Allow policy; what they deny, an Allow policy can still allow.
func (d *decider) outcome(opinions []*opinion) result {
	s := sortOpinions(opinions)
	r := result{open: openConditions(slices.Concat(s.limits, s.allows, s.rest))}
	violations := slices.Concat(violationsOf(s.limits), violationsOf(s.allows))
	switch {
	case d.unreadable != nil && len(s.limits)+len(s.allows)+len(s.rest) > 0:
		return r.deny(slices.Concat(s.limits, s.allows, s.rest)[0].policy, d.unreadableViolations(s))
	case anyOf(s.limits, func(o *opinion) bool { return o.violated() > 0 }):
		return r.deny(firstViolated(nearest(s.limits)), violations)
	case anyOf(s.limits, undecided):
		return r.wait(s.limits)
	}
	best, valid := bestOf(s.allows), available(s.allows)
	others := d.in.Facts.RequestPolicies
	switch {
	case best != nil && rank(best) == 0:
	case says(others, v1alpha1.OutcomeApprove):
		best, r.builtIn = nil, RequestPolicyPrefix+others.Policy
	case best != nil && rank(best) == 1:
	case says(others, v1alpha1.OutcomeWait), best != nil && says(others, v1alpha1.OutcomeDeny):
		return r.as(others)
	case best != nil:
	case anyOf(valid, undecided), len(valid) < len(s.allows) && len(valid)+len(s.rest) > 0:
		return r.wait(s.allows)
	case len(valid) > 0:
		return r.deny(nearest(valid)[0].policy, violationsOf(valid))
	case says(others, v1alpha1.OutcomeDeny):
		return r.as(others)
	case d.builtIn() != "":
		r.builtIn = d.builtIn()
	case anyOf(s.rest, undecided):
		return r.wait(s.rest)
	case len(s.rest) > 0 && !d.in.Facts.BuiltIn.Known && d.in.Request.SignerName == approval.SignerName:
		return r.waitFor(s.rest[0], "whether a built-in policy allows the request")
	case len(s.rest) > 0:
		return r.notAllowed(s.rest[0].policy)
	}
	// What an exception covers is on record also of a request that is allowed.
	r.violations = violationsOf(s.limits)
	if best != nil {
		r.policy = best.policy
		r.violations = append(r.violations, violationsOf([]*opinion{best})...)
	}
	return d.people(r, s.limits, best)
}

// people asks whether enough people have approved.
func (d *decider) people(r result, limits []*opinion, best *opinion) result {
	for _, o := range limits {
		if o.policy.wantsPeople() {
			r.requirements = append(r.requirements, o.policy.requirement())
		}
	}
	if best != nil && best.policy.wantsPeople() {
		r.requirements = append(r.requirements, best.policy.requirement())
	}
	switch {
	case len(r.requirements) > 0:
		return d.count(r)
	case r.builtIn != "", best != nil && best.policy.approval() == v1alpha1.ApproveAutomatic:
		r.outcome = v1alpha1.OutcomeApprove
	default:
		r.outcome = v1alpha1.OutcomeLeave
	}
	return r
}

func (d *decider) count(r result) result {
	if r.policy == nil {
		r.policy = d.set.Policy(r.requirements[0].Policy)
	}
	counted := quorum.Count(r.requirements, d.votes, d.requester, d.now)
	if !counted.Met {
		if r = d.renewed(r); len(r.requirements) == 0 {
			r.outcome = v1alpha1.OutcomeApprove
			return r
		}
		counted = quorum.Count(r.requirements, d.votes, d.requester, d.now)
	}
	r.people = &v1alpha1.PeopleDecision{Met: counted.Met, Requirements: counted.Requirements, Votes: counted.Votes}
	if counted.Met {
		r.outcome = v1alpha1.OutcomeApprove
		return r
	}
	if d.in.SealsUnknown {
		return r.waitForSeals()
	}
	r.outcome, r.reason = v1alpha1.OutcomeNeedPeople, ReasonApprovalsMissing
	r.message = progress(counted.Requirements)
	return r
}

// AtPeople is the address of what a policy requires of people.
const AtPeople = "approval.people"

// waitForSeals waits until it is known whether enough people have approved.
func (r result) waitForSeals() result {
	const fact = "whether the approvals that it has verify"
	for _, req := range r.requirements {
		r.open = append(r.open, v1alpha1.OpenCondition{Policy: req.Policy, At: AtPeople, Fact: fact})
	}
	r.outcome, r.reason, r.people = v1alpha1.OutcomeWait, ReasonFactMissing, nil
	r.message = "certificate policy " + r.requirements[0].Policy + ": not known yet: " + fact
	return r
}

// progress says who is missing. Several policies are named by quorum.Progress.
func progress(reqs []v1alpha1.PeopleMissing) string {
	open := slices.DeleteFunc(slices.Clone(reqs), func(r v1alpha1.PeopleMissing) bool { return len(r.Missing) == 0 })
	if len(open) == 1 {
		return "certificate policy " + open[0].Policy + ": " + quorum.Progress(open)
	}
	return quorum.Progress(open)
}

func (r result) deny(by *Policy, violations []v1alpha1.PolicyViolation) result {
	r.outcome, r.policy, r.violations = v1alpha1.OutcomeDeny, by, violations
	for _, v := range violations {
		if v.Exception == "" {
			r.reason = v.Reason
			break
		}
	}
	return r
}

func (r result) notAllowed(by *Policy) result {
	return r.deny(by, []v1alpha1.PolicyViolation{{
		Policy: by.name, At: "effect", Reason: ReasonNotAllowed, Message: "no Allow policy is about this request",
	}})
}

func (r result) wait(opinions []*opinion) result {
	r.outcome = v1alpha1.OutcomeWait
	for _, o := range opinions {
		if o.unavailable {
			r.reason, r.policy = ReasonUnavailable, o.policy
			r.message = "certificate policy " + o.policy.name + " is not valid: requests wait until it is corrected"
			return r
		}
	}
	r.reason = ReasonFactMissing
	var facts []string
	for _, o := range opinions {
		for _, f := range o.open {
			if r.policy == nil {
				r.policy = o.policy
			}
			if !slices.Contains(facts, f.open) {
				facts = append(facts, f.open)
			}
		}
	}
	if r.policy != nil {
		r.message = "certificate policy " + r.policy.name + ": not known yet: " + strings.Join(facts, ", ")
	}
	return r
}

// says reports whether CertificateRequestPolicies are enforced and say this.
func says(ruling *v1alpha1.RequestPoliciesRuling, outcome v1alpha1.DecisionOutcome) bool {
	return ruling != nil && ruling.Outcome == outcome
}

// as is what CertificateRequestPolicies say.
func (r result) as(ruling *v1alpha1.RequestPoliciesRuling) result {
	r.outcome, r.reason, r.message = ruling.Outcome, ruling.Reason, ruling.Message
	return r
}

// waitFor waits for a fact that a policy needs.
func (r result) waitFor(o *opinion, fact string) result {
	waiting := *o
	waiting.open = []finding{{at: "effect", open: fact}}
	return r.wait([]*opinion{&waiting})
}

// builtIn returns the built-in policy that allows the request; empty if none
// does.
func (d *decider) builtIn() string {
	if name := d.in.Facts.BuiltIn.Value; name != nil {
		return *name
	}
	return ""
}

func anyOf(opinions []*opinion, is func(*opinion) bool) bool {
	return slices.ContainsFunc(opinions, is)
}

// undecided reports whether a policy cannot say yet whether the request fits.
func undecided(o *opinion) bool { return o.unavailable || len(o.open) > 0 && o.violated() == 0 }

// available returns the opinions of policies that are valid. An Allow policy
// that is not allows nothing; it only prevents that a request is denied, which
// would be final, because of it.
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
