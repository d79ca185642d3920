package protection

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Outcome is what becomes of a write.
type Outcome struct {
	// Restore: the stored object stays unchanged except for its proposals.
	Restore bool
	// Spec, unless nil, replaces the specification that was sent. It has no effect.
	Spec map[string]any
	// Proposals and Agreed are the values of the annotations; empty if the object is
	// to have none.
	Proposals, Agreed string
	// Warnings are for the user.
	Warnings []string
	// Recorded is the proposal recorded instead of the write; nil if none was.
	Recorded *Record
	// Refusal is set if nothing may be stored.
	Refusal *quorum.Refusal
}

// Stores reports whether the specification is stored as it was sent.
func (m *Outcome) Stores() bool { return m.Refusal == nil && !m.Restore && m.Spec == nil }

// noRequester is the requester of a policy, which has none: its author may vote as well.
var noRequester = quorum.Person{}

// Mutate returns what becomes of a write. It expects the object as the client sent it:
// called again with its own result, it would drop the proposal. The error comes from
// Seal.
func (w *Write) Mutate() (Outcome, error) {
	reqs, err := w.Required()
	if refusal := w.refuse(reqs, err); refusal != nil {
		return Outcome{Refusal: refusal}, nil
	}
	switch {
	case !w.ChangesSpec():
		return Outcome{Proposals: w.Old.Proposals, Agreed: w.Old.Agreed}, nil
	case len(reqs) == 0:
		return Outcome{}, nil
	case w.Old == nil:
		return w.create(reqs)
	}
	counting := proposals(w.Kind, w.Old, w.Open, w.Now)
	votes := votesOf(wanting(counting, digest(w.New.Spec)))
	before := quorum.Count(reqs, votes, noRequester, w.Now)
	if before.Met {
		return w.agreed(counting, nil), nil // enough people have written it before
	}
	refusal := quorum.MayVote(reqs, votes, w.User, noRequester, w.Now)
	open := quorum.OpenRequirements(before.Requirements)
	switch {
	case refusal == nil:
		return w.change(reqs, counting, votes, before)
	case refusal.Reason == quorum.ReasonAlreadyApproved:
		return Outcome{Restore: true, Proposals: w.Old.Proposals, Agreed: w.Old.Agreed, Warnings: quorum.AlreadyWarnings(open)}, nil
	default:
		return Outcome{Refusal: w.headed(open, refusal)}, nil
	}
}

// headed prefixes a refusal with the policies and the kind of change that needs people.
func (w *Write) headed(open []v1alpha1.PeopleMissing, refusal *quorum.Refusal) *quorum.Refusal {
	refusal.Message = quorum.PoliciesHeading(open) + fmt.Sprintf("changing the %s needs people; ", w.Kind.noun()) + refusal.Message
	return refusal
}

// refuse returns why no user may make the change: an object that is being deleted must
// stay as it was when the deletion was permitted.
func (w *Write) refuse(reqs []quorum.Requirement, err error) *quorum.Refusal {
	switch {
	case err != nil:
		return &quorum.Refusal{Reason: ReasonProtected, Message: err.Error()}
	case w.Old != nil && w.Old.Deleting && (len(reqs) > 0 || w.New.Spec["protection"] != nil && w.ChangesSpec()):
		return &quorum.Refusal{Reason: ReasonProtected, Message: fmt.Sprintf("the %s %s is being deleted, and cannot be changed", w.Kind.noun(), w.Old.Name)}
	default:
		return nil
	}
}

// create decides about a new object that needs people: it is stored without effect.
func (w *Write) create(reqs []quorum.Requirement) (Outcome, error) {
	before := quorum.Count(reqs, nil, noRequester, w.Now)
	if w.New.Name == "" {
		return Outcome{Refusal: &quorum.Refusal{Reason: ReasonProtected, Message: fmt.Sprintf("a new %s that needs people must have a name", w.Kind.noun())}}, nil
	}
	if refusal := quorum.MayVote(reqs, nil, w.User, noRequester, w.Now); refusal != nil {
		return Outcome{Refusal: w.headed(quorum.OpenRequirements(before.Requirements), refusal)}, nil
	}
	inert := w.withoutEffect()
	// The server gives every new object the first generation.
	stored := &Object{Name: w.New.Name, Generation: 1, Spec: inert}
	record := w.record(stored, reqs)
	record.Changes = nil
	m, err := w.recorded(record, nil, before, quorum.Count(reqs, []quorum.Vote{record.vote()}, noRequester, w.Now))
	m.Spec = inert
	if w.Kind == Exceptions {
		m.Warnings = append(m.Warnings, "the exception is stored with a spec.notAfter that has passed; others agree by writing the same file")
	} else {
		m.Warnings = append(m.Warnings, `the policy is stored with "mode: Off"; others agree by writing the same with "mode: Enforce"`)
	}
	return m, err
}

// change decides about a change by a user whose vote counts.
func (w *Write) change(reqs []quorum.Requirement, counting []proposal, votes []quorum.Vote, before v1alpha1.PeopleDecision) (Outcome, error) {
	record := w.record(w.Old, reqs)
	after := quorum.Count(reqs, append(slices.Clone(votes), record.vote()), noRequester, w.Now)
	if after.Met {
		sealed, err := w.Seal(record)
		return w.agreed(counting, []string{sealed}), err
	}
	var kept []string
	for _, p := range counting {
		if !p.isOf(w.User.Person) { // one proposal of a person at a time
			kept = append(kept, p.text)
		}
	}
	if len(kept) >= quorum.MaxVotes {
		return Outcome{Refusal: &quorum.Refusal{Reason: quorum.ReasonTooManyApprovals,
			Message: fmt.Sprintf("the %s has %d proposals, and cannot have more; they expire", w.Kind.noun(), len(kept))}}, nil
	}
	m, err := w.recorded(record, kept, before, after)
	m.Restore, m.Agreed = true, w.Old.Agreed
	m.Warnings = append(m.Warnings, fmt.Sprintf("the %s is not changed yet; others agree by writing the same", w.Kind.noun()))
	return m, err
}

// agreed returns the outcome that stores what enough people have written, with
// their proposals and the last one, if it was needed.
func (w *Write) agreed(counting []proposal, last []string) Outcome {
	var texts []string
	for _, p := range wanting(counting, digest(w.New.Spec)) {
		texts = append(texts, p.text)
	}
	return Outcome{Agreed: annotation(append(texts, last...))}
}

// recorded returns the outcome that stores a proposal.
func (w *Write) recorded(record Record, others []string, before, after v1alpha1.PeopleDecision) (Outcome, error) {
	sealed, err := w.Seal(record)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{
		Proposals: annotation(append(others, sealed)), Recorded: &record,
		Warnings: quorum.RecordedWarnings(before.Requirements, after.Requirements),
	}, nil
}

// record returns the user's proposal to change what is stored into New.
func (w *Write) record(stored *Object, reqs []quorum.Requirement) Record {
	all := slices.Clone(reqs)
	for _, p := range w.Protected {
		all = append(all, p.requirement())
	}
	vote := quorum.VoteFor(w.User.Person, w.Now, all)
	var validFor time.Duration
	for _, req := range reqs {
		validFor = max(validFor, req.ValidFor())
	}
	return Record{
		Kind: w.Kind, Name: stored.Name, UID: stored.UID, Generation: stored.Generation,
		Stored: digest(stored.Spec), Wanted: digest(w.New.Spec), Changes: changes(stored.Spec, w.New.Spec),
		User: vote.Username, UserUID: vote.UID, Groups: vote.Groups, Extra: vote.Extra,
		Time: vote.Time, Expires: vote.Time.Add(validFor), Policies: quorum.RecordedPolicies(reqs),
	}
}

// InertField is the field below spec in which a new object that needs people
// differs from what was written.
func (k Kind) InertField() string {
	if k == Exceptions {
		return "notAfter"
	}
	return "mode"
}

// withoutEffect returns the new specification in a form that versions without
// protection do not act on either: a policy that is off, an exception that has ended.
func (w *Write) withoutEffect() map[string]any {
	spec := runtime.DeepCopyJSON(w.New.Spec)
	spec[w.Kind.InertField()] = string(v1alpha1.PolicyOff)
	if w.Kind == Exceptions {
		spec[w.Kind.InertField()] = w.Now.Add(-quorum.ClockSkew).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	return spec
}

// votesOf returns the proposals of one specification as votes.
func votesOf(same []proposal) []quorum.Vote {
	var votes []quorum.Vote
	for _, p := range same {
		votes = append(votes, p.vote())
	}
	return votes
}
