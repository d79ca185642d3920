// Package acmeorder decides about the accounts, orders and certificates of the
// ACME server (RFC 8555). Decisions are functions of objects and a time: what
// changes is returned, and the callers look up and write.
package acmeorder

import (
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// maxSubproblems is how many parts of a problem orders keep.
const maxSubproblems = 100

// limited returns a problem of a client that has to come back later.
func limited(until time.Time, format string, args ...any) *rfc8555.Problem {
	p := rfc8555.NewProblem(429, rfc8555.ProblemRateLimited, format, args...)
	p.RetryAfter = until
	return p
}

// bounded returns a text as the detail of a problem has it: its beginning, in
// printable characters.
func bounded(text string) string { return rfc8555.NewProblem(0, "", "%s", text).Detail }

// compound returns one problem about several identifiers of an order, nil if there is
// nothing wrong. If the order has more than one identifier, the subproblems name the ones
// concerned.
func compound(parts []rfc8555.Subproblem, identifiers int) *rfc8555.Problem {
	if len(parts) == 0 {
		return nil
	}
	p := rfc8555.Combine(parts)
	if identifiers > 1 {
		p.Subproblems = parts
	}
	return p
}

// Stored returns a problem as orders keep it.
func Stored(p *rfc8555.Problem) *v1alpha1.AcmeProblem {
	if p == nil {
		return nil
	}
	stored := &v1alpha1.AcmeProblem{Type: strings.TrimPrefix(p.Type, rfc8555.Namespace), Detail: bounded(p.Detail), Status: int32(p.Status)}
	for i, sub := range p.Subproblems {
		if i == maxSubproblems {
			break
		}
		stored.Subproblems = append(stored.Subproblems, v1alpha1.AcmeSubproblem{
			Type: strings.TrimPrefix(sub.Type, rfc8555.Namespace), Detail: bounded(sub.Detail),
			Identifier: v1alpha1.AcmeIdentifier(sub.Identifier),
		})
	}
	return stored
}

// Shown returns a problem that an order keeps as clients see it.
func Shown(p *v1alpha1.AcmeProblem) *rfc8555.Problem {
	if p == nil {
		return nil
	}
	shown := &rfc8555.Problem{Type: rfc8555.Namespace + p.Type, Detail: p.Detail, Status: int(p.Status)}
	for _, sub := range p.Subproblems {
		shown.Subproblems = append(shown.Subproblems, rfc8555.Subproblem{
			Type: rfc8555.Namespace + sub.Type, Detail: sub.Detail, Identifier: rfc8555.Identifier(sub.Identifier),
		})
	}
	return shown
}
