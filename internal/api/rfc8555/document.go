package rfc8555

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// MediaTypeProblem is the media type of problem documents (RFC 7807 section 6.1).
const MediaTypeProblem = "application/problem+json"

// Limits of the problems that our servers send.
const (
	maxDetail      = 1 << 10 // bytes
	maxSubproblems = 100
	maxQuoted      = 64 // bytes of the text of a client
	maxIdentifier  = 256
)

// badRequest is the code 400. It is defined here because policies use this package, but
// must not depend on HTTP.
const badRequest = 400

// ProblemDocument is the JSON form of a problem, alone or inside other objects.
type ProblemDocument struct {
	Type        string       `json:"type"`
	Title       string       `json:"title,omitempty"` // some servers have it instead of Detail
	Detail      string       `json:"detail"`
	Status      int          `json:"status,omitempty"`
	Instance    string       `json:"instance,omitempty"`
	Subproblems []Subproblem `json:"subproblems,omitempty"`
	Algorithms  []string     `json:"algorithms,omitempty"`
}

// NewProblem returns a problem with which our server refuses a request: the code of the
// response, a type without Namespace, and the detail, formatted as by fmt.Sprintf. Pass
// texts from clients through Quote.
func NewProblem(status int, kind, format string, args ...any) *Problem {
	return &Problem{Type: Namespace + kind, Status: status, Detail: printable(fmt.Sprintf(format, args...))}
}

// NewSubproblem returns the part of a problem that concerns an identifier; the other
// arguments are the same as for NewProblem.
func NewSubproblem(id Identifier, kind, format string, args ...any) *Subproblem {
	return &Subproblem{Type: Namespace + kind, Detail: printable(fmt.Sprintf(format, args...)), Identifier: id}
}

// Combine returns one problem for at least one part. It has the type of the parts if they
// share one, and a single part becomes the problem itself (RFC 8555 section 6.7.1).
func Combine(parts []Subproblem) *Problem {
	if len(parts) == 1 {
		return &Problem{Type: parts[0].Type, Status: badRequest, Detail: parts[0].Detail}
	}
	kind := parts[0].Type
	for _, part := range parts {
		if part.Type != kind {
			kind = Namespace + ProblemCompound
		}
	}
	return &Problem{Type: kind, Status: badRequest, Detail: fmt.Sprintf("%d identifiers are refused, each for the reason in its subproblem", len(parts)), Subproblems: parts}
}

// Quote returns the beginning of a text from a client in quotes, all in printable
// characters.
func Quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(text[:maxQuoted], "")) + "..."
	}
	return strconv.Quote(text)
}

// Document returns the problem in the form that our servers send. All texts are single
// lines of limited length.
func (p *Problem) Document() ProblemDocument {
	d := ProblemDocument{Type: p.Type, Detail: printable(p.Detail), Status: p.Status, Instance: p.Instance, Algorithms: p.Algorithms}
	for i, sub := range p.Subproblems {
		if i == maxSubproblems {
			break
		}
		sub.Detail = printable(sub.Detail)
		sub.Identifier = Identifier{Type: ShortLine(sub.Identifier.Type, maxQuoted), Value: ShortLine(sub.Identifier.Value, maxIdentifier)}
		d.Subproblems = append(d.Subproblems, sub)
	}
	return d
}

// Encode returns the body of a response with the problem, of the media type
// MediaTypeProblem.
func (p *Problem) Encode() []byte {
	body, err := json.Marshal(p.Document())
	if err != nil { // texts and numbers can always be encoded
		panic(fmt.Sprintf("encoding a problem: %v", err))
	}
	return body
}

// printable returns the text of a detail as one short line.
func printable(text string) string { return ShortLine(text, maxDetail) }

// ShortLine returns at most most bytes of an untrusted text, with a space for each
// unprintable character.
func ShortLine(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("...")], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
}
