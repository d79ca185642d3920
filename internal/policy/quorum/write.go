package quorum

import (
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
)

// ReasonFactMissing: a fact that the decision needs is not known yet.
const ReasonFactMissing = "FactMissing"

// DecideFunc decides about a request with votes, and returns the requirements for which
// it counted the votes.
type DecideFunc func(votes []Vote) (*v1alpha1.PolicyDecision, []Requirement)

// Write is a write of a request through the subresource that its approval goes
// through, or of its status.
type Write struct {
	// Request is the object that will be stored: the spec of the stored object, even if
	// another was sent, and the metadata that the subresource stores.
	Request request.Request
	// Old are the conditions that are stored, New those that were sent. Neither
	// is modified.
	Old, New []Condition
	// User is the user who writes.
	User Voter
	// Now is the time of the write.
	Now time.Time
	// Decide decides by the policies in force.
	Decide DecideFunc
	// All are the requirements of all policies, also of policies that do not apply to
	// this request. Votes record the groups that they name.
	All []Requirement
	// Open and Seal use the keys of the server. They are called once for each vote.
	Open OpenFunc
	Seal SealFunc
	// Order, if not nil, is the ACME order that the request is for. The approval of a
	// person is then recorded even if no policy requires people.
	Order *request.OrderTerms
	// MayOverride is called only for policies that can be overridden, and only if the
	// request gives a reason. Nil: the user may override none.
	MayOverride MayOverrideFunc
}

// Outcome is what becomes of a write.
type Outcome struct {
	// Conditions replace the conditions that were sent.
	Conditions []Condition
	// Warnings are for the user.
	Warnings []string
	// Recorded is the vote recorded instead of the write; nil if none was.
	Recorded *Record
	// Decision is the last decision that was made; nil if none was.
	Decision *v1alpha1.PolicyDecision
	// Refusal is set if nothing may be stored.
	Refusal *Refusal
}

// Approves reports whether the write adds an approval.
func (w *Write) Approves() bool { return adds(w.Old, w.New, approved) }

// Mutate returns what becomes of the write: the server's conditions are restored, and
// an approval that does not complete what policies require becomes a vote. It expects
// the object as the client sent it: called again with its own result, it would drop the
// vote. The error comes from Seal or MayOverride.
func (w *Write) Mutate() (Outcome, error) {
	conditions := Restore(w.Old, w.New)
	if isSet(w.Old, approved) || isSet(w.Old, denied) {
		return Outcome{Conditions: conditions}, nil
	}
	approves, denies := w.Approves(), adds(w.Old, w.New, denied)
	switch {
	case approves && denies:
		return Outcome{Refusal: &Refusal{"Invalid", "a request cannot be approved and denied at once"}}, nil
	case denies:
		// One person with the right to approve denies for good.
		return Outcome{Conditions: without(conditions, AwaitingApproval)}, nil
	}
	votes := Votes(w.Old, w.Request, w.Open)
	decision, reqs := w.Decide(votes)
	if !approves {
		return Outcome{Conditions: await(conditions, decision), Decision: decision}, nil
	}
	return w.approve(conditions, votes, decision, reqs)
}

// approve decides about a write that approves.
func (w *Write) approve(conditions []Condition, votes []Vote, decision *v1alpha1.PolicyDecision, reqs []Requirement) (Outcome, error) {
	m := Outcome{Conditions: await(conditions, decision), Decision: decision}
	if m.Refusal = refusalOf(decision); m.Refusal != nil {
		return m, nil
	}
	if decision.Outcome != v1alpha1.OutcomeNeedPeople {
		return w.witness(m), nil
	}
	override, ineffective, err := w.override(votes, reqs)
	if err != nil {
		return Outcome{}, err
	}
	if ineffective != "" {
		m.Warnings = append(m.Warnings, ineffective)
	}
	open := OpenRequirements(peopleOf(decision))
	if override == nil {
		m.Refusal = MayVote(reqs, votes, w.User, w.Request.Requester, w.Now)
	}
	if m.Refusal == nil {
		voted, err := w.vote(conditions, votes, decision, reqs, override)
		voted.Warnings = append(m.Warnings, voted.Warnings...)
		return voted, err
	}
	if m.Refusal.Reason == ReasonAlreadyApproved {
		m.Refusal = nil
		m.Conditions = without(m.Conditions, approved)
		m.Warnings = append(m.Warnings, AlreadyWarnings(open)...)
		return m, nil
	}
	m.Refusal = m.Refusal.headed(open)
	return m, nil
}

// Prospect returns why an approval of the voter would be refused, or would not count,
// as Write decides it; nil if it would help. decision, reqs and votes belong to the
// request.
func Prospect(decision *v1alpha1.PolicyDecision, reqs []Requirement, votes []Vote, voter Voter, requester Person, now time.Time) *Refusal {
	if refusal := refusalOf(decision); refusal != nil || decision.Outcome != v1alpha1.OutcomeNeedPeople {
		return refusal
	}
	refusal := MayVote(reqs, votes, voter, requester, now)
	if refusal == nil || refusal.Reason == ReasonAlreadyApproved {
		return refusal
	}
	return refusal.headed(OpenRequirements(peopleOf(decision)))
}

// headed returns the refusal with the policies that require people in front.
func (r *Refusal) headed(open []v1alpha1.PeopleMissing) *Refusal {
	return &Refusal{r.Reason, PoliciesHeading(open) + r.Message}
}

// witness records an approval that no policy requires, so that it can count for later
// orders. The approval is valid even if it cannot be recorded.
func (w *Write) witness(m Outcome) Outcome {
	n := freeNumber(w.Old)
	if w.Order == nil || n == 0 || !w.User.IsPerson(w.Request.Requester) {
		return m
	}
	record := w.record(n, nil)
	record.Order = &OrderApproval{Terms: *w.Order, Groups: w.User.Groups, Extra: w.User.Extra}
	sealed, err := w.Seal(record)
	if err != nil {
		return m
	}
	m.Recorded = &record
	m.Conditions = with(m.Conditions, voteCondition(record, sealed, nil, w.said()))
	return m
}

// said returns the message with which the user approves.
func (w *Write) said() string {
	c, _ := find(w.New, approved)
	return c.Message
}

// vote adds the user's vote, which overrides policies unless override is nil.
func (w *Write) vote(conditions []Condition, votes []Vote, before *v1alpha1.PolicyDecision, reqs []Requirement, override *Override) (Outcome, error) {
	n := freeNumber(w.Old)
	if n == 0 {
		return Outcome{Decision: before, Refusal: &Refusal{ReasonTooManyApprovals,
			fmt.Sprintf("the request has %d approvals, and cannot have more; make another request", MaxVotes)}}, nil
	}
	record := w.record(n, reqs)
	record.Override = override
	if w.Order != nil && override == nil && slices.ContainsFunc(reqs, Requirement.carries) && w.User.IsPerson(w.Request.Requester) {
		record.Order = &OrderApproval{Terms: *w.Order, Groups: w.User.Groups, Extra: w.User.Extra}
	}
	decision, _ := w.Decide(append(slices.Clone(votes), record.Vote()))
	m := Outcome{Decision: decision, Refusal: refusalOf(decision)}
	if m.Refusal != nil {
		return m, nil
	}
	sealed, err := w.Seal(record)
	if err != nil {
		return Outcome{}, err
	}
	m.Recorded = &record
	m.Conditions = with(await(conditions, decision), voteCondition(record, sealed, peopleOf(decision), w.said()))
	if decision.Outcome == v1alpha1.OutcomeNeedPeople {
		m.Conditions = without(m.Conditions, approved)
		m.Warnings = RecordedWarnings(peopleOf(before), peopleOf(decision))
	}
	if override != nil {
		m.Warnings = append(overrideWarnings(override), m.Warnings...)
	}
	return m, nil
}

// refusalOf returns why a decision forbids an approval by any user; nil if it does not.
func refusalOf(decision *v1alpha1.PolicyDecision) *Refusal {
	switch decision.Outcome {
	case v1alpha1.OutcomeDeny:
		return &Refusal{decision.Reason, decision.Message}
	case v1alpha1.OutcomeWait:
		reason := decision.Reason
		if reason == "" {
			reason = ReasonFactMissing
		}
		return &Refusal{reason, decision.Message + "; try again later"}
	default:
		return nil
	}
}

// peopleOf returns the requirements of people in a decision.
func peopleOf(decision *v1alpha1.PolicyDecision) []v1alpha1.PeopleMissing {
	if decision.People == nil {
		return nil
	}
	return decision.People.Requirements
}

// await adds the condition that lists the missing people, or removes it if no people
// are missing. While a fact is not known, it does not change the condition.
func await(conditions []Condition, decision *v1alpha1.PolicyDecision) []Condition {
	switch decision.Outcome {
	case v1alpha1.OutcomeNeedPeople:
		return with(conditions, Awaiting(decision))
	case v1alpha1.OutcomeWait:
		return conditions
	default:
		return without(conditions, AwaitingApproval)
	}
}

// Awaiting returns the condition that lists the missing people.
func Awaiting(decision *v1alpha1.PolicyDecision) Condition {
	return Condition{Type: AwaitingApproval, Status: isTrue, Reason: ReasonApprovalsMissing, Message: Progress(peopleOf(decision))}
}

// freeNumber returns the smallest number for a new vote, or 0 if there are
// MaxVotes.
func freeNumber(conditions []Condition) int {
	for n := 1; n <= MaxVotes; n++ {
		if _, taken := find(conditions, VoteType(n)); !taken {
			return n
		}
	}
	return 0
}

// AlreadyWarnings returns the warnings to a voter whose vote counts already: the people
// still needed.
func AlreadyWarnings(open []v1alpha1.PeopleMissing) []string {
	var warnings []string
	for _, r := range open {
		warnings = append(warnings, policyHeading(r.Policy)+"you have approved already; "+needed(r.Missing))
	}
	return warnings
}

// RecordedWarnings returns the warnings to a voter: what the vote has changed, and the
// people still needed. kubectl prints "approved" for a vote also.
func RecordedWarnings(before, after []v1alpha1.PeopleMissing) []string {
	var warnings []string
	for _, r := range after {
		i := slices.IndexFunc(before, func(b v1alpha1.PeopleMissing) bool { return b.Policy == r.Policy })
		counts, open := i < 0 || r.Have > before[i].Have, len(r.Missing) > 0
		text := policyHeading(r.Policy)
		switch {
		case counts:
			text += fmt.Sprintf("recorded as approval %d of %d", r.Have, r.Count)
		case open:
			text += fmt.Sprintf("%d of %d approvals", r.Have, r.Count)
		default:
			continue
		}
		if open {
			text += "; " + needed(r.Missing)
		}
		warnings = append(warnings, text)
	}
	return warnings
}
