// Package declared holds the signers that Signer objects declare, while they
// are open.
package declared

import (
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
)

// Signer is a declared signer. It is immutable: a change of a Signer object
// creates another one. It is safe for concurrent use.
type Signer struct {
	// Object and UID identify the Signer object.
	Object string
	UID    types.UID
	// Name is the value of spec.signerName in requests.
	Name string
	// Requests are the kinds of requests that it serves.
	Requests []v1alpha1.RequestKind
	// Unready is why the signer cannot sign now; it is for operators. If it is
	// set, Profile may be nil, and CA and Endpoint are nil.
	Unready error
	// Profile decides the content of certificates.
	Profile *profile.Profile
	// Chain decides which certificates follow an issued one.
	Chain v1alpha1.ChainContent
	// CA returns the current CA. It is called for each certificate and must be
	// fast. If it is nil, Endpoint signs.
	CA       func() (*pki.Authority, error)
	Endpoint *webhook.Endpoint
	// Former are former CAs whose keys are kept for their revocation lists.
	Former []FormerCA
	// Issuing configures signatures with CA.
	Issuing pki.Issuing
	// Honoured returns the CAs for clients of the API server, if they are
	// known.
	Honoured signer.Honoured
	// Publish is set if Roots are to be published. Roots verify the
	// certificates, including those that will be issued soon. A signer that is
	// not open may have none.
	Publish bool
	Roots   []*x509.Certificate
	// Overlap is how long roots stay published after they have been replaced.
	Overlap time.Duration
	// Distrusted are the fingerprints of CAs that must not be trusted any more.
	Distrusted []string
	// OnCreate has requests signed in the calls that create them, if CA signs.
	OnCreate bool
	// Counts counts the outcomes of requests. It is shared by all Signers that
	// were created from one object.
	Counts *Counts
}

// FormerCA is a former CA whose key is kept for its revocation lists.
type FormerCA struct {
	*pki.ListAuthority
	// Until is when the last of its certificates ends.
	Until time.Time
}

// Serves reports whether the signer is for requests of a kind.
func (s *Signer) Serves(kind v1alpha1.RequestKind) bool { return slices.Contains(s.Requests, kind) }

// IssuesOnCreate reports whether the signer can and should sign requests in the calls
// that create them. It is false for nil.
func (s *Signer) IssuesOnCreate() bool {
	return s != nil && s.OnCreate && s.CA != nil && s.Unready == nil
}

// errNotOpen is the error of a signer that is not open yet.
var errNotOpen = errors.New("it is still being opened")

// same reports whether t makes no difference to requests that wait for s.
func (s *Signer) same(t *Signer) bool {
	return s != nil && t != nil && s.Unready != nil && t.Unready != nil && slices.Equal(s.Requests, t.Requests)
}
