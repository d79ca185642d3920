package order

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Verdict is the consequence of a CA's problem for the Order or the Challenge of the
// request.
type Verdict int

const (
	// Retry: the CA has a temporary problem.
	Retry Verdict = iota
	// Wait: the CA asks to retry later, or limits requests. This is not an error.
	Wait
	// Reread: the object is in another state at the CA than assumed.
	Reread
	// IssuersFault: the account has to be looked after. Orders and Challenges
	// wait for that.
	IssuersFault
	// Gone: the CA does not know the object.
	Gone
	// Permanent: the CA will never do this.
	Permanent
)

// String returns the verdict as a word for metrics and explanations.
func (v Verdict) String() string {
	return [...]string{"retry", "wait", "reread", "issuer", "gone", "permanent"}[v]
}

const (
	// limitedFor is how long to wait if the CA limits requests without a Retry-After.
	limitedFor = time.Hour
	// maxWait limits the wait that a CA can ask for.
	maxWait = 7 * 24 * time.Hour
)

// rule maps problems to a verdict.
type rule struct {
	verdict Verdict
	// kinds are the types of problems; statuses the codes of the response. A
	// problem of any of them matches.
	kinds    []string
	statuses []int
	// unless excludes problems.
	unless func(*rfc8555.Problem) bool
}

// rules are in the order in which they are tried: the type of a problem is more specific
// than the code of the response.
var rules = []rule{
	{verdict: Wait, kinds: []string{rfc8555.ProblemRateLimited}},
	{verdict: Retry, kinds: []string{rfc8555.ProblemBadNonce}},
	{verdict: Wait, statuses: []int{429, 503}, unless: func(p *rfc8555.Problem) bool { return p.Status == 503 && p.RetryAfter.IsZero() }},
	{verdict: Retry, kinds: []string{rfc8555.ProblemServerInternal}},
	{verdict: Reread, kinds: []string{rfc8555.ProblemOrderNotReady}},
	{verdict: IssuersFault, kinds: []string{
		rfc8555.ProblemUnauthorized, rfc8555.ProblemAccountDoesNotExist, rfc8555.ProblemExternalAccountRequired, rfc8555.ProblemUserActionRequired,
		rfc8555.ProblemBadSignatureAlgorithm,
	}},
	{verdict: Gone, statuses: []int{404, 410}},
	{verdict: Permanent, kinds: []string{
		rfc8555.ProblemMalformed, rfc8555.ProblemRejectedIdentifier, rfc8555.ProblemUnsupportedIdentifier, rfc8555.ProblemCAA,
		rfc8555.ProblemBadCSR, rfc8555.ProblemBadPublicKey, rfc8555.ProblemInvalidProfile, rfc8555.ProblemAlreadyReplaced, rfc8555.ProblemCompound,
	}},
	{verdict: Retry, statuses: []int{408, 425}},
}

// Judge returns the verdict on a problem.
func Judge(p *rfc8555.Problem) Verdict {
	for _, r := range rules {
		if (p.HasType(r.kinds...) || slices.Contains(r.statuses, p.Status)) && (r.unless == nil || !r.unless(p)) {
			return r.verdict
		}
	}
	// A page from a proxy is not an answer of the CA, and proves nothing about the object.
	if p.Status >= 400 && p.Status < 500 && p.Type != "" {
		return Permanent
	}
	return Retry
}

// WaitUntil returns when a CA may be asked again after a problem that asks to wait.
func WaitUntil(p *rfc8555.Problem, now time.Time) time.Time {
	if p.RetryAfter.IsZero() {
		return now.Add(limitedFor)
	}
	return Bounded(p.RetryAfter, now)
}

// Bounded returns a time that a CA has set, or the latest accepted one.
func Bounded(until, now time.Time) time.Time {
	if latest := now.Add(maxWait); until.After(latest) {
		return latest
	}
	return until
}

// maxReason is the maximum length of a reason in a status, in bytes: a CA can return a
// hundred identifiers with a problem each.
const maxReason = 4096

// bounded cuts a text of the CA.
func bounded(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason-len("...")], "") + "..."
}

// brief describes a problem without what differs from one answer to the next,
// such as the number of a request.
func brief(p *rfc8555.Problem) string {
	kind := strings.TrimPrefix(p.Type, rfc8555.Namespace)
	switch {
	case kind == "":
		return fmt.Sprintf("HTTP status %d", p.Status)
	case p.Status == 0:
		return kind
	}
	return fmt.Sprintf("%s, HTTP status %d", kind, p.Status)
}
