package quorum

import (
	"fmt"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// ReasonForged: conditions of the server were changed on the way to storage.
const ReasonForged = "ApprovalsChanged"

// ClockSkew is how much the time of a new vote may differ from the clock of the server
// that checks it: another server may have recorded it.
const ClockSkew = 5 * time.Minute

// Validate returns a refusal unless New may be stored, even if another plugin has
// changed it since Mutate: the votes of Old are unchanged, at most one vote was added,
// by the user, and a new approval has the people that policies require.
func (w *Write) Validate() *Refusal {
	added, refusal := w.checkOurs()
	if refusal != nil || isSet(w.Old, approved) || isSet(w.Old, denied) {
		return refusal
	}
	if added != nil {
		if refusal := w.checkAdded(*added); refusal != nil {
			return refusal
		}
	}
	if !adds(w.Old, w.New, approved) {
		return nil
	}
	if adds(w.Old, w.New, denied) {
		return &Refusal{"Invalid", "a request cannot be approved and denied at once"}
	}
	decision, _ := w.Decide(Votes(w.New, w.Request, w.Open))
	if decision.Outcome == v1alpha1.OutcomeNeedPeople {
		open := OpenRequirements(peopleOf(decision))
		return &Refusal{ReasonApprovalsMissing, PoliciesHeading(open) + Progress(peopleOf(decision))}
	}
	return refusalOf(decision)
}

// checkOurs compares the server's own conditions with those that are stored. Two things
// may differ: the condition that people are awaited, which only informs, and, before a
// decision, one new vote, which checkOurs returns.
func (w *Write) checkOurs() (added *Condition, refusal *Refusal) {
	final := isSet(w.Old, approved) || isSet(w.Old, denied)
	seen := map[string]bool{}
	for _, c := range w.New {
		if !isOurs(c) {
			continue
		}
		if seen[c.Type] {
			return nil, changedCondition(c, "is there twice")
		}
		seen[c.Type] = true
		before, stored := find(w.Old, c.Type)
		_, isVote := voteNumber(c.Type)
		switch {
		case stored && before == c, c.Type == AwaitingApproval && !final:
		case stored:
			return nil, changedCondition(c, "was changed")
		case final || !isVote || added != nil:
			return nil, changedCondition(c, "was added")
		default:
			added = &c
		}
	}
	for _, c := range w.Old {
		if isOurs(c) && !seen[c.Type] && (final || c.Type != AwaitingApproval) {
			return nil, changedCondition(c, "was removed")
		}
	}
	return added, nil
}

func changedCondition(c Condition, how string) *Refusal {
	return &Refusal{ReasonForged, fmt.Sprintf("condition %s %s; only certplane writes conditions of types that begin with %s", printable(c.Type), how, ConditionPrefix)}
}

// checkAdded returns a refusal unless the user made the new vote now.
func (w *Write) checkAdded(c Condition) *Refusal {
	n, _ := voteNumber(c.Type)
	record, err := openCondition(c, w.Open)
	if err == nil {
		err = record.checkFor(w.Request, Digest(w.Request), n)
	}
	switch {
	case err != nil:
		return changedCondition(c, "was added: "+err.Error())
	case n > MaxVotes:
		return changedCondition(c, "was added, and is one too many")
	case w.User.Impersonator != "" || !record.isOf(w.User.Person):
		return changedCondition(c, "was added, and is not the user's")
	case w.Now.Sub(record.Time).Abs() > ClockSkew:
		return changedCondition(c, "was added, and is of another time")
	default:
		return w.checkOverride(record.Override)
	}
}
