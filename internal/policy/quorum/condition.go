package quorum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
)

// Condition is a condition of a request of any kind, without its times.
type Condition struct {
	Type, Status, Reason, Message string
}

const (
	// ConditionPrefix begins the types of the conditions that only the server
	// writes.
	ConditionPrefix = "certplane.dev/"
	// AwaitingApproval is the type of the condition of requests for which
	// people are missing, with the reason ReasonApprovalsMissing.
	AwaitingApproval = ConditionPrefix + "awaiting-approval"
	// ReasonApprovalsMissing: more people have to approve.
	ReasonApprovalsMissing = "ApprovalsMissing"
	// ReasonOverride is the reason of votes that override policies.
	ReasonOverride = "Override"

	votePrefix = ConditionPrefix + "approval-"

	// MaxVotes is the largest number of votes that one request has.
	MaxVotes = 16

	// The types that decide about a request of either kind.
	approved = "Approved"
	denied   = "Denied"
	// isTrue is the status of conditions that are set.
	isTrue = "True"
)

// VoteType returns the type of the condition that has vote n.
func VoteType(n int) string { return votePrefix + strconv.Itoa(n) }

// IsVote reports whether conditions of a type are votes.
func IsVote(conditionType string) bool {
	_, ok := voteNumber(conditionType)
	return ok
}

// voteNumber returns the number in the type of a vote's condition.
func voteNumber(conditionType string) (int, bool) {
	digits, ok := strings.CutPrefix(conditionType, votePrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && strconv.Itoa(n) == digits
}

// OpenFunc opens a sealed record, like Open with the keys of the server.
type OpenFunc func(text string) (Record, error)

// SealFunc seals a record, like Seal with the key of the server.
type SealFunc func(Record) (string, error)

// Votes returns the votes in the conditions of a request: those whose seals verify, and
// that are of an approval of this request with its present content. Conditions of newer
// versions are not votes, and not errors.
func Votes(conditions []Condition, r request.Request, open OpenFunc) []Vote {
	var votes []Vote
	for _, e := range Examine(conditions, r, open) {
		if e.Err == nil {
			votes = append(votes, e.Record.Vote())
		}
	}
	return votes
}

// Examined is a condition whose type is that of votes.
type Examined struct {
	Condition Condition
	// Record is what was sealed. It is empty if its seal does not verify.
	Record Record
	// Err is why the condition is not a vote for the request; nil if it is one.
	Err error
}

// Examine returns the conditions of a request whose type is that of votes, in their
// order, and whether they have votes of this request with its present content.
func Examine(conditions []Condition, r request.Request, open OpenFunc) []Examined {
	var all []Examined
	digest := ""
	for _, c := range conditions {
		n, ok := voteNumber(c.Type)
		if !ok {
			continue
		}
		if digest == "" {
			digest = Digest(r)
		}
		e := Examined{Condition: c}
		if e.Record, e.Err = openCondition(c, open); e.Err == nil {
			e.Err = e.Record.checkFor(r, digest, n)
		}
		all = append(all, e)
	}
	return all
}

// sealMark begins the sealed record at the end of a condition's message.
const sealMark = "(sealed "

// Unsealed returns the message of a condition, of one that has a vote without the
// sealed record.
func Unsealed(c Condition) string {
	if start := strings.LastIndex(c.Message, sealMark); start >= 0 && IsVote(c.Type) {
		return strings.TrimSpace(c.Message[:start])
	}
	return c.Message
}

// SealedIn returns the sealed record of a condition with a vote, or "" without one.
func SealedIn(c Condition) string {
	start := strings.LastIndex(c.Message, sealMark)
	if start < 0 || !IsVote(c.Type) || !strings.HasSuffix(c.Message, ")") {
		return ""
	}
	return c.Message[start+len(sealMark) : len(c.Message)-1]
}

// openCondition opens the sealed record at the end of a condition's message.
func openCondition(c Condition, open OpenFunc) (Record, error) {
	sealed := SealedIn(c)
	if sealed == "" {
		return Record{}, fmt.Errorf("condition %s has no sealed record", c.Type)
	}
	return open(sealed)
}

// voteCondition returns the condition that has a sealed record. people are the
// requirements, counted with the vote; said is the message of the voter's condition.
func voteCondition(r Record, sealed string, people []v1alpha1.PeopleMissing, said string) Condition {
	if o := r.Override; o != nil {
		return Condition{
			Type: VoteType(r.N), Status: isTrue, Reason: ReasonOverride,
			Message: fmt.Sprintf("%s overrode %s, because: %s%s (sealed %s)", describeVoter(r), enumerate(shortened(o.Policies), "and"), quoted(o.Why), quotedAfter("; ", said), sealed),
		}
	}
	text := describeVoter(r) + " approved"
	if have := standing(people); have != "" {
		text += ", " + have
	}
	text += quotedAfter(": ", said)
	return Condition{Type: VoteType(r.N), Status: isTrue, Reason: approved, Message: fmt.Sprintf("%s (sealed %s)", text, sealed)}
}

// kubectlSays is the message that kubectl sets on every approval. It carries no
// information.
const kubectlSays = "This CSR was approved by kubectl certificate approve."

// quotedAfter returns the voter's message in quotation marks, after the prefix; "" for
// an empty message.
func quotedAfter(prefix, said string) string {
	const limit = 256
	if said == "" || said == kubectlSays {
		return ""
	}
	return prefix + `"` + printableUpTo(said, limit) + `"`
}

// describeVoter returns the voter's name, and the groups that policies name.
func describeVoter(r Record) string {
	if len(r.Groups) == 0 {
		return printable(r.User)
	}
	var groups []string
	for _, group := range shortened(r.Groups) {
		groups = append(groups, printable(group))
	}
	return printable(r.User) + " of " + enumerate(groups, "and")
}

// printable returns a name for a message of one line, of at most 128 bytes.
func printable(name string) string {
	const limit = 128
	return printableUpTo(name, limit)
}

// printableUpTo returns a text for a message of one line, of at most so many bytes.
func printableUpTo(name string, limit int) string {
	var b strings.Builder
	for _, char := range name {
		if !unicode.IsPrint(char) {
			char = unicode.ReplacementChar
		}
		if b.Len()+len(string(char)) > limit {
			return b.String() + "..."
		}
		b.WriteRune(char)
	}
	return b.String()
}

// find returns the condition of a type.
func find(conditions []Condition, conditionType string) (Condition, bool) {
	i := slices.IndexFunc(conditions, func(c Condition) bool { return c.Type == conditionType })
	if i < 0 {
		return Condition{}, false
	}
	return conditions[i], true
}

// isSet reports whether conditions have one of the type that is not false.
func isSet(conditions []Condition, conditionType string) bool {
	c, ok := find(conditions, conditionType)
	return ok && (c.Status == isTrue || c.Status == "")
}

// adds reports whether sent has a condition of the type, whatever its status,
// that stored does not have with this status.
func adds(stored, sent []Condition, conditionType string) bool {
	return slices.ContainsFunc(sent, func(c Condition) bool {
		before, ok := find(stored, conditionType)
		return c.Type == conditionType && (!ok || before.Status != c.Status)
	})
}

// without returns the conditions of other types.
func without(conditions []Condition, conditionType string) []Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c Condition) bool { return c.Type == conditionType })
}

// with returns the conditions with c in place of the one of its type, or at the
// end.
func with(conditions []Condition, c Condition) []Condition {
	conditions = slices.Clone(conditions)
	if i := slices.IndexFunc(conditions, func(other Condition) bool { return other.Type == c.Type }); i >= 0 {
		conditions[i] = c
		return conditions
	}
	return append(conditions, c)
}

// isOurs reports whether only the server writes conditions of c's type.
func isOurs(c Condition) bool { return strings.HasPrefix(c.Type, ConditionPrefix) }

// Restore returns sent with the server's own conditions as they are stored:
// changed ones are put back in their places, missing ones at the end, and those
// that are not stored are dropped.
func Restore(stored, sent []Condition) []Condition {
	var restored []Condition
	for _, c := range sent {
		if isOurs(c) {
			before, ok := find(stored, c.Type)
			if _, again := find(restored, c.Type); !ok || again {
				continue
			}
			c = before
		}
		restored = append(restored, c)
	}
	for _, c := range stored {
		if _, ok := find(restored, c.Type); isOurs(c) && !ok {
			restored = append(restored, c)
		}
	}
	return restored
}
