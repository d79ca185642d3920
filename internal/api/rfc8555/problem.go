package rfc8555

import (
	"fmt"
	"strings"
	"time"
)

// Namespace is the prefix of the types of problems (RFC 8555 section 6.7).
const Namespace = "urn:ietf:params:acme:error:"

// Types of problems, without Namespace.
const (
	ProblemAccountDoesNotExist     = "accountDoesNotExist"
	ProblemAlreadyReplaced         = "alreadyReplaced" // RFC 9773
	ProblemAlreadyRevoked          = "alreadyRevoked"
	ProblemBadCSR                  = "badCSR"
	ProblemBadNonce                = "badNonce"
	ProblemBadPublicKey            = "badPublicKey"
	ProblemBadRevocationReason     = "badRevocationReason"
	ProblemBadSignatureAlgorithm   = "badSignatureAlgorithm"
	ProblemCAA                     = "caa"
	ProblemCompound                = "compound"
	ProblemConnection              = "connection"
	ProblemDNS                     = "dns"
	ProblemExternalAccountRequired = "externalAccountRequired"
	ProblemIncorrectResponse       = "incorrectResponse"
	ProblemInvalidContact          = "invalidContact"
	ProblemInvalidProfile          = "invalidProfile" // draft-ietf-acme-profiles
	ProblemMalformed               = "malformed"
	ProblemOrderNotReady           = "orderNotReady"
	ProblemRateLimited             = "rateLimited"
	ProblemRejectedIdentifier      = "rejectedIdentifier"
	ProblemServerInternal          = "serverInternal"
	ProblemTLS                     = "tls"
	ProblemUnauthorized            = "unauthorized"
	ProblemUnsupportedContact      = "unsupportedContact"
	ProblemUnsupportedIdentifier   = "unsupportedIdentifier"
	ProblemUserActionRequired      = "userActionRequired"
)

// Problem is an error document of a server (RFC 7807), or a response without one, such as
// the page of a proxy: then Type is empty, and Detail describes the response.
type Problem struct {
	// Type is the full type, such as
	// "urn:ietf:params:acme:error:rateLimited".
	Type   string
	Detail string
	// Status is the code of the HTTP response. For a problem inside another object it is
	// the code in the problem, or 0.
	Status int
	// Instance is a URL that describes this occurrence.
	Instance string
	// TermsOfService is the URL of the terms that a user has to accept, from the
	// header Link.
	TermsOfService string
	Subproblems    []Subproblem
	// Algorithms are the algorithms that the server accepts, in a problem of the type
	// badSignatureAlgorithm (RFC 8555 section 6.2).
	Algorithms []string
	// RetryAfter is when the server wants the next query; zero if it did not set a time.
	RetryAfter time.Time
}

// Subproblem is the part of a problem that belongs to one identifier (RFC 8555
// section 6.7.1).
type Subproblem struct {
	Type       string     `json:"type"`
	Detail     string     `json:"detail"`
	Identifier Identifier `json:"identifier,omitzero"`
}

// HasType reports whether the problem has one of these types, given without Namespace.
func (p *Problem) HasType(types ...string) bool {
	for _, t := range types {
		if p.Type == Namespace+t {
			return true
		}
	}
	return false
}

// words are the types of problems that Word returns.
var words = []string{
	ProblemAccountDoesNotExist, ProblemAlreadyReplaced, ProblemAlreadyRevoked, ProblemBadCSR, ProblemBadNonce, ProblemBadPublicKey,
	ProblemBadRevocationReason, ProblemBadSignatureAlgorithm, ProblemCAA, ProblemCompound, ProblemConnection, ProblemDNS,
	ProblemExternalAccountRequired, ProblemIncorrectResponse, ProblemInvalidContact, ProblemInvalidProfile, ProblemMalformed,
	ProblemOrderNotReady, ProblemRateLimited, ProblemRejectedIdentifier, ProblemServerInternal, ProblemTLS, ProblemUnauthorized,
	ProblemUnsupportedContact, ProblemUnsupportedIdentifier, ProblemUserActionRequired,
}

// Word returns the type of a problem as one of a fixed set of words, for labels of metrics:
// "none" for nil, "other" for types outside the standards.
func (p *Problem) Word() string {
	if p == nil {
		return "none"
	}
	for _, word := range words {
		if p.Type == Namespace+word {
			return word
		}
	}
	return "other"
}

// Error returns the problem in the form that users of cert-manager know: "<code> <type>:
// <detail>", followed by the subproblems, one per line.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Status != 0 {
		fmt.Fprintf(&b, "%d ", p.Status)
	}
	fmt.Fprintf(&b, "%s: %s", p.Type, p.Detail)
	if len(p.Subproblems) > 0 {
		b.WriteString("; subproblems:")
	}
	for _, sub := range p.Subproblems {
		fmt.Fprintf(&b, "\n\t%s: [%s: %s] %s", sub.Type, sub.Identifier.Type, sub.Identifier.Value, sub.Detail)
	}
	return b.String()
}
