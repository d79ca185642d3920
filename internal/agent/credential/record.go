// Package credential decides what to do about one certificate of a pod: ask
// for it, wait, serve it, ask for the next one.
package credential

import (
	"encoding/base64"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Record is all that is known about a certificate. It holds private keys, so it
// belongs in a file that only the agent can read.
type Record struct {
	// Current is the credential that is served. It stays until its successor is issued,
	// even after it has expired.
	Current *Credential `json:"current,omitempty"`
	// Pending is the request that has not been answered yet.
	Pending *Request `json:"pending,omitempty"`
	// Failure is the reason why a newer credential is missing. It is removed when one is
	// issued.
	Failure *Failure `json:"failure,omitempty"`
}

// Purpose is the intended use of a certificate. A certificate for another purpose cannot be
// used.
type Purpose struct {
	PodUID types.UID `json:"podUID"`
	// Source is a digest of everything else that a signer could put into the
	// certificate.
	Source string `json:"source"`
}

// Credential is a key with its certificate.
type Credential struct {
	For Purpose `json:"for"`
	// Key and Chain are in PEM. The chain begins with the leaf.
	Key       PEM       `json:"key"`
	Chain     PEM       `json:"chain"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	// RefreshAt is when to request the next one, with a random delay.
	RefreshAt time.Time `json:"refreshAt"`
	// Reported are the events that have been reported.
	Reported []string `json:"reported,omitempty"`
}

// Request is a PodCertificateRequest. It is saved before it is sent, so that a
// request whose answer was lost is found again by its name.
type Request struct {
	For Purpose `json:"for"`
	// Name is derived from the key, so that sending the request twice creates one object.
	Name string `json:"name"`
	Key  PEM    `json:"key"`
	// CSR is a PKCS#10 request in DER.
	CSR []byte `json:"csr"`
	// SentAt is when the server accepted it; zero if it has not.
	SentAt time.Time `json:"sentAt,omitzero"`
	// AbandonAt is when to give up a request that the agent does not see.
	AbandonAt time.Time `json:"abandonAt,omitzero"`
}

// PEM is PEM text that does not appear in logs.
type PEM []byte

// String keeps keys out of logs and errors.
func (PEM) String() string { return "(PEM)" }

// GoString is String for %#v.
func (PEM) GoString() string { return "(PEM)" }

// MarshalText encodes the text as JSON encodes bytes.
func (p PEM) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, p), nil
}

// UnmarshalText reads what MarshalText wrote.
func (p *PEM) UnmarshalText(text []byte) error {
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	*p = data
	return err
}

// FailureKind is the kind of cause of a failure.
type FailureKind string

// The kinds of failures.
const (
	// Denied and Failed are the signer's answers.
	Denied FailureKind = "Denied"
	Failed FailureKind = "Failed"
	// Unanswered is a request that was deleted before a signer answered it.
	Unanswered FailureKind = "Unanswered"
	// Unusable is a certificate that does not match the request.
	Unusable FailureKind = "Unusable"
	// Unsent is a request that the server did not accept.
	Unsent FailureKind = "Unsent"
)

// Failure is an attempt that did not produce a credential.
type Failure struct {
	For  Purpose     `json:"for"`
	Kind FailureKind `json:"kind"`
	// Reason is one word, Message a sentence for people.
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
	// Count is the number of consecutive failures of this kind.
	Count   int       `json:"count"`
	RetryAt time.Time `json:"retryAt"`
}

// State is the state of a credential, in the words of kubelet's metric.
type State string

// The states.
const (
	NotYetIssued State = "not_yet_issued"
	Fresh        State = "fresh"
	Overdue      State = "overdue_for_refresh"
	Expired      State = "expired"
	DeniedState  State = "denied"
	FailedState  State = "failed"
)

// overdueAfter is how late a refresh may be before the operator should know.
const overdueAfter = 10 * time.Minute

// StateAt returns the state of the credential at a time.
func (r Record) StateAt(now time.Time) State {
	switch c := r.Current; {
	case c == nil && r.Failure != nil && r.Failure.Kind == Denied:
		return DeniedState
	case c == nil && r.Failure != nil && r.Failure.Kind == Failed:
		return FailedState
	case c == nil:
		return NotYetIssued
	case now.After(c.NotAfter):
		return Expired
	case now.After(c.RefreshAt.Add(overdueAfter)):
		return Overdue
	}
	return Fresh
}
