package protection

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Mutation is what becomes of a write.
type Mutation struct {
	// Restore: the object is stored as it is, whatever was sent, apart from the
	// proposals.
	Restore bool
	// Spec is stored in place of the one that was sent, unless it is nil. It has no
	// effect.
	Spec map[string]any
	// Proposals and Agreed are the values of the annotations; empty if the object is
	// to have none.
	Proposals, Agreed string
	// Warnings are for the user.
	Warnings []string
	// Recorded is the proposal that the write became; nil if it became none.
	Recorded *Record
	// Refusal is set if nothing may be stored.
	Refusal *quorum.Refusal
}

// Stores reports whether the specification is stored as it was sent.
func (m *Mutation) Stores() bool { return m.Refusal == nil && !m.Restore && m.Spec == nil }

// nobody is the requester of a policy: who has written it may vote, too.
var nobody = quorum.Person{}

// Mutate returns what becomes of a write. It is for what the client has sent:
// called again with its own result, it would drop the proposal. The error is of
// Seal.
func (w *Write) Mutate() (Mutation, error) {
	reqs, err := w.Required()
	if refusal := w.refuse(reqs, err); refusal != nil {
		return Mutation{Refusal: refusal}, nil
	}
	switch {
	case !w.ChangesSpec():
		return Mutation{Proposals: w.Old.Proposals, Agreed: w.Old.Agreed}, nil
	case len(reqs) == 0:
		return Mutation{}, nil
	case w.Old == nil:
		return w.create(reqs)
	}
	counting := proposals(w.Kind, w.Old, w.Open, w.Now)
	votes := votesOf(wanting(counting, digest(w.New.Spec)))
	before := quorum.Count(reqs, votes, nobody, w.Now)
	if before.Met {
		return w.agreed(counting, nil), nil // enough people have written it before
	}
	refusal := quorum.MayVote(reqs, votes, w.User, nobody, w.Now)
	open := quorum.OpenRequirements(before.Requirements)
	switch {
	case refusal == nil:
		return w.change(reqs, counting, votes, before)
	case refusal.Reason == quorum.ReasonAlreadyApproved:
		return Mutation{Restore: true, Proposals: w.Old.Proposals, Agreed: w.Old.Agreed, Warnings: quorum.AlreadyWarnings(open)}, nil
	default:
		return Mutation{Refusal: w.headed(open, refusal)}, nil
	}
}

// headed adds the policies to a refusal, and what nobody may do alone.
func (w *Write) headed(open []v1alpha1.PeopleMissing, refusal *quorum.Refusal) *quorum.Refusal {
	refusal.Message = quorum.PoliciesHeading(open) + fmt.Sprintf("changing the %s needs people; ", w.Kind.noun()) + refusal.Message
	return refusal
}

// refuse returns what forbids a change whoever writes it: while an object is being
// deleted it stays what it was when that was permitted.
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

// create decides about a new object that needs people: it is stored without an
// effect.
func (w *Write) create(reqs []quorum.Requirement) (Mutation, error) {
	before := quorum.Count(reqs, nil, nobody, w.Now)
	if w.New.Name == "" {
		return Mutation{Refusal: &quorum.Refusal{Reason: ReasonProtected, Message: fmt.Sprintf("a new %s that needs people must have a name", w.Kind.noun())}}, nil
	}
	if refusal := quorum.MayVote(reqs, nil, w.User, nobody, w.Now); refusal != nil {
		return Mutation{Refusal: w.headed(quorum.OpenRequirements(before.Requirements), refusal)}, nil
	}
	inert := w.withoutEffect()
	// The server gives every new object the first generation.
	stored := &Object{Name: w.New.Name, Generation: 1, Spec: inert}
	record := w.record(stored, reqs)
	record.Changes = nil
	m, err := w.recorded(record, nil, before, quorum.Count(reqs, []quorum.Vote{record.vote()}, nobody, w.Now))
	m.Spec = inert
	if w.Kind == Exceptions {
		m.Warnings = append(m.Warnings, "the exception is stored with a spec.notAfter that has passed; who agrees writes the same file")
	} else {
		m.Warnings = append(m.Warnings, `the policy is stored with "mode: Off"; who agrees writes the same with "mode: Enforce"`)
	}
	return m, err
}

// change decides about a change by somebody whose vote counts.
func (w *Write) change(reqs []quorum.Requirement, counting []proposal, votes []quorum.Vote, before quorum.Result) (Mutation, error) {
	record := w.record(w.Old, reqs)
	after := quorum.Count(reqs, append(slices.Clone(votes), record.vote()), nobody, w.Now)
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
		return Mutation{Refusal: &quorum.Refusal{Reason: quorum.ReasonTooManyApprovals,
			Message: fmt.Sprintf("the %s has %d proposals, and cannot have more; they expire", w.Kind.noun(), len(kept))}}, nil
	}
	m, err := w.recorded(record, kept, before, after)
	m.Restore, m.Agreed = true, w.Old.Agreed
	m.Warnings = append(m.Warnings, fmt.Sprintf("the %s stays as it is; who agrees writes the same", w.Kind.noun()))
	return m, err
}

// agreed returns the mutation that stores what enough people have written, with
// their proposals and the last one, if it was needed.
func (w *Write) agreed(counting []proposal, last []string) Mutation {
	var texts []string
	for _, p := range wanting(counting, digest(w.New.Spec)) {
		texts = append(texts, p.text)
	}
	return Mutation{Agreed: annotation(append(texts, last...))}
}

// recorded returns the mutation that stores a proposal.
func (w *Write) recorded(record Record, others []string, before, after quorum.Result) (Mutation, error) {
	sealed, err := w.Seal(record)
	if err != nil {
		return Mutation{}, err
	}
	return Mutation{
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

// withoutEffect returns the new specification as versions that know nothing of
// protection do not act on it either: a policy that is off, an exception that has
// ended.
func (w *Write) withoutEffect() map[string]any {
	spec := runtime.DeepCopyJSON(w.New.Spec)
	spec[w.Kind.InertField()] = string(v1alpha1.PolicyOff)
	if w.Kind == Exceptions {
		spec[w.Kind.InertField()] = w.Now.Add(-quorum.ClockSkew).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	return spec
}

// votesOf returns who has made proposals of one specification.
func votesOf(same []proposal) []quorum.Vote {
	var votes []quorum.Vote
	for _, p := range same {
		votes = append(votes, p.vote())
	}
	return votes
}
