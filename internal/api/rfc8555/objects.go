// Package rfc8555 contains the objects of the ACME protocol (RFC 8555 and its extensions)
// that a client reads, and the problems that a server sends. They are data; package acme
// sends and receives them.
package rfc8555

import (
	"errors"
	"time"
)

// States of orders, authorizations and challenges (RFC 8555 section 7.1.6). Each kind of
// object uses some of them.
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

// Directory contains the URLs of a server and its metadata.
type Directory struct {
	// RenewalInfo is the base URL of renewal information (RFC 9773); empty if the server
	// does not support it.
	RenewalInfo string
	// KeyChange is empty if account keys cannot be replaced.
	KeyChange string
	// TermsOfService is the URL of the terms of service. It can be empty.
	TermsOfService string
	// CAAIdentities are the names of the CA in CAA records.
	CAAIdentities []string
	// ExternalAccountRequired is set if new accounts need an external account binding.
	ExternalAccountRequired bool
	// Profiles are the certificate profiles: their names and descriptions.
	Profiles map[string]string
}

// Account is an account of a server.
type Account struct {
	URL    string
	Status string
	// Contact contains URLs such as mailto:admin@example.com. Some servers do not return
	// them.
	Contact []string
}

// Identifier is a name or an address for which a certificate is ordered.
type Identifier struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// OrderRequest is the content of a new order.
type OrderRequest struct {
	Identifiers []Identifier
	// NotAfter, if not zero, is the requested expiry of the certificate.
	NotAfter time.Time
	// Profile, if not empty, is one of the directory's profiles.
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
	// RetryAfter is when the server wants the next query; zero if it did not set a time.
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
	// RetryAfter works as in Order.
	RetryAfter time.Time
}

// Challenge is a challenge (RFC 8555 section 7.1.5).
type Challenge struct {
	URL    string
	Type   string
	Status string
	Token  string
	Error  *Problem
	// IssuerDomainNames and AccountURI are fields of a dns-persist-01 challenge.
	IssuerDomainNames []string
	AccountURI        string
	// RetryAfter works as in Order.
	RetryAfter time.Time
}

// ErrNoWindow reports that a server answered a request for renewal information without a
// valid window.
var ErrNoWindow = errors.New("the ACME server has sent no window for the renewal")

// RenewalInfo is the suggested time for the renewal of a certificate (RFC 9773 section
// 4.2).
type RenewalInfo struct {
	Start, End     time.Time
	ExplanationURL string
	// RetryAfter works as in Order.
	RetryAfter time.Time
}
