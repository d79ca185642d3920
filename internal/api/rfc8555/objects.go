// Package rfc8555 has the objects of the ACME protocol (RFC 8555 and its
// extensions), as far as a client reads them, and problems as a server sends them.
// They are data: package acme sends and receives them.
package rfc8555

import (
	"errors"
	"time"
)

// States of orders, authorizations and challenges (RFC 8555 section 7.1.6).
// Each kind of object has some of them.
const (
	StatePending     = "pending"
	StateReady       = "ready"
	StateProcessing  = "processing"
	StateValid       = "valid"
	StateInvalid     = "invalid"
	StateExpired     = "expired"
	StateDeactivated = "deactivated"
	StateRevoked     = "revoked"
)

// Types of identifiers.
const (
	IdentifierDNS = "dns"
	IdentifierIP  = "ip" // RFC 8738
)

// Types of challenges.
const (
	ChallengeHTTP01       = "http-01"
	ChallengeDNS01        = "dns-01"
	ChallengeTLSALPN01    = "tls-alpn-01"    // RFC 8737
	ChallengeDNSAccount01 = "dns-account-01" // draft-ietf-acme-dns-account-label
	ChallengeDNSPersist01 = "dns-persist-01" // draft-ietf-acme-dns-persist
)

// Directory has the addresses of a server, and what it says of itself.
type Directory struct {
	// RenewalInfo is the base of the addresses of renewal information (RFC
	// 9773); empty if the server has none.
	RenewalInfo string
	// KeyChange is empty if account keys cannot be replaced.
	KeyChange string
	// TermsOfService is the URL of the terms, which can be empty.
	TermsOfService string
	// CAAIdentities are the names by which CAA records refer to the CA.
	CAAIdentities []string
	// ExternalAccountRequired is set if accounts need an external account.
	ExternalAccountRequired bool
	// Profiles are the certificate profiles: their names and descriptions.
	Profiles map[string]string
}

// Account is an account of a server.
type Account struct {
	URL    string
	Status string
	// Contact are URLs such as mailto:admin@example.com. Some servers do not
	// return them.
	Contact []string
}

// Identifier is a name or an address for which a certificate is ordered.
type Identifier struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// OrderRequest is what a new order asks for.
type OrderRequest struct {
	Identifiers []Identifier
	// NotAfter, if not zero, is the requested end of the certificate.
	NotAfter time.Time
	// Profile, if not empty, is one of the directory's.
	Profile string
	// Replaces, if not empty, is the CertID of the certificate that is renewed
	// (RFC 9773 section 5).
	Replaces string
}

// Order is an order (RFC 8555 section 7.1.3).
type Order struct {
	URL            string
	Status         string
	Expires        time.Time
	Identifiers    []Identifier
	Authorizations []string
	Finalize       string
	Certificate    string
	Replaces       string
	Profile        string
	Error          *Problem
	// RetryAfter is when the server wants to be asked again; zero means that it
	// did not say.
	RetryAfter time.Time
}

// Authorization is an authorization (RFC 8555 section 7.1.4).
type Authorization struct {
	URL        string
	Identifier Identifier
	Status     string
	Expires    time.Time
	Wildcard   bool
	Challenges []Challenge
	// RetryAfter is as in Order.
	RetryAfter time.Time
}

// Challenge is a challenge (RFC 8555 section 7.1.5).
type Challenge struct {
	URL    string
	Type   string
	Status string
	Token  string
	Error  *Problem
	// IssuerDomainNames and AccountURI are those of a dns-persist-01 challenge.
	IssuerDomainNames []string
	AccountURI        string
	// RetryAfter is as in Order.
	RetryAfter time.Time
}

// ErrNoWindow means that a server has answered a request for renewal information
// with something that has no possible window.
var ErrNoWindow = errors.New("the ACME server has sent no window for the renewal")

// RenewalInfo says when a certificate should be renewed (RFC 9773 section 4.2).
type RenewalInfo struct {
	Start, End     time.Time
	ExplanationURL string
	// RetryAfter is as in Order.
	RetryAfter time.Time
}
