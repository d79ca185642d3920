package protection

import (
	"errors"
	"fmt"
	"slices"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Validate returns a refusal unless New may be stored, even if another plugin has
// changed it since Mutate: enough people have written a new specification, the last of
// them with this write, and the proposals are the stored ones and at most one by the
// user, made now.
func (w *Write) Validate() *quorum.Refusal {
	reqs, err := w.Required()
	if refusal := w.refuse(reqs, err); refusal != nil {
		return refusal
	}
	if len(reqs) > 0 {
		if refusal := w.checkPeople(reqs); refusal != nil {
			return refusal
		}
	} else if refusal := w.checkAgreed(); refusal != nil {
		return refusal
	}
	if w.Old != nil && w.ChangesSpec() {
		if w.New.Proposals != "" {
			return changed(v1alpha1.AnnotationProposals, errors.New("they are about what was stored before"))
		}
		return nil
	}
	return w.checkProposals()
}

// checkPeople returns a refusal unless enough people have written New: those who
// have proposed it, and the user, if there is a sealed record of this write.
func (w *Write) checkPeople(reqs []quorum.Requirement) *quorum.Refusal {
	var counting []proposal
	if w.Old != nil {
		counting = wanting(proposals(w.Kind, w.Old, w.Open, w.Now), digest(w.New.Spec))
	}
	votes := votesOf(counting)
	for _, text := range sealedIn(w.New.Agreed) {
		if slices.ContainsFunc(counting, func(p proposal) bool { return p.text == text }) {
			continue
		}
		record, err := w.openAdded(text)
		switch {
		case err == nil && record.Wanted != digest(w.New.Spec):
			err = errors.New("the user has written something else")
		case err == nil && len(votes) > len(counting):
			err = errOneOnly
		}
		if err != nil {
			return changed(v1alpha1.AnnotationAgreed, err)
		}
		votes = append(votes, record.vote())
	}
	result := quorum.Count(reqs, votes, noRequester, w.Now)
	if result.Met {
		return nil
	}
	return &quorum.Refusal{Reason: quorum.ReasonApprovalsMissing,
		Message: quorum.PoliciesHeading(quorum.OpenRequirements(result.Requirements)) + quorum.Progress(result.Requirements)}
}

// checkAgreed returns a refusal if a write that needs no people lists people who have
// agreed.
func (w *Write) checkAgreed() *quorum.Refusal {
	before := ""
	if !w.ChangesSpec() {
		before = w.Old.Agreed
	}
	if w.New.Agreed != before {
		return changed(v1alpha1.AnnotationAgreed, errors.New("no other people had to agree"))
	}
	return nil
}

var errOneOnly = errors.New("one write adds one proposal")

// checkProposals compares the proposals of an object whose specification does not
// change, or that is created.
func (w *Write) checkProposals() *quorum.Refusal {
	stored := w.replaced()
	if w.New.Proposals == stored.Proposals {
		return nil
	}
	before, after := sealedIn(stored.Proposals), sealedIn(w.New.Proposals)
	added := slices.DeleteFunc(slices.Clone(after), func(text string) bool { return slices.Contains(before, text) })
	if len(added) != 1 || len(after) > quorum.MaxVotes {
		return changed(v1alpha1.AnnotationProposals, errOneOnly)
	}
	if _, err := w.openAdded(added[0]); err != nil {
		return changed(v1alpha1.AnnotationProposals, err)
	}
	for _, p := range proposals(w.Kind, stored, w.Open, w.Now) {
		if !p.isOf(w.User.Person) && !slices.Contains(after, p.text) {
			return changed(v1alpha1.AnnotationProposals, errors.New("a proposal was removed"))
		}
	}
	return nil
}

// replaced returns the object that proposals of this write refer to: the stored object,
// or at creation the new one.
func (w *Write) replaced() *Object {
	if w.Old != nil {
		return w.Old
	}
	return &Object{Name: w.New.Name, Generation: 1, Spec: w.New.Spec, Created: w.Now}
}

// openAdded opens a sealed record that is not stored. The user must have made it now.
func (w *Write) openAdded(text string) (Record, error) {
	r, err := w.Open(text)
	if err != nil {
		return r, err
	}
	if err := r.checkFor(w.Kind, w.replaced(), w.Now); err != nil {
		return r, err
	}
	switch {
	case w.User.Impersonator != "" || !r.isOf(w.User.Person):
		return r, errors.New("a proposal is not the user's")
	case w.Now.Sub(r.Time).Abs() > quorum.ClockSkew:
		return r, errors.New("a proposal is of another time")
	default:
		return r, nil
	}
}

func changed(name string, err error) *quorum.Refusal {
	return &quorum.Refusal{Reason: quorum.ReasonForged, Message: fmt.Sprintf("the annotation %s was changed, which only certplane writes: %v", name, err)}
}
