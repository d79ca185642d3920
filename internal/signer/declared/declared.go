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
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/webhook"
)

// Signer is a declared signer. It does not change: what changes about a Signer
// object makes another one. Safe for concurrent use.
type Signer struct {
	// Object and UID are those of the Signer object.
	Object string
	UID    types.UID
	// Name is what requests name in spec.signerName.
	Name string
	// Requests are the kinds of requests that it serves.
	Requests []v1alpha1.RequestKind
	// Unready says why the signer cannot sign now; it is for operators. Then it
	// may have no Profile, and has neither CA nor Endpoint.
	Unready error
	// Profile decides what certificates look like.
	Profile *profile.Profile
	// Chain says what stands after certificates.
	Chain v1alpha1.ChainContent
	// CA has the CA with which to sign now. It is called for each certificate
	// and must be fast. Nil: Endpoint signs.
	CA       func() (*pki.Authority, error)
	Endpoint *webhook.Endpoint
	// Issuing is what signing with CA takes besides.
	Issuing pki.Issuing
	// Honoured are the CAs of the API's own clients, if they are known.
	Honoured signer.Honoured
	// Publish says that Roots are to be published. They are what verifies
	// certificates, those that are going to be issued soon too. A signer that is
	// not open can have none.
	Publish bool
	Roots   []*x509.Certificate
	// Overlap is how long roots are published after they have been replaced.
	Overlap time.Duration
	// Counts counts what becomes of requests. It is the same for all Signers
	// that were made of one object.
	Counts *Counts
}

// Serves reports whether the signer is for requests of a kind.
func (s *Signer) Serves(kind v1alpha1.RequestKind) bool { return slices.Contains(s.Requests, kind) }

// errNotOpen is the reason of a Signer that was made without one.
var errNotOpen = errors.New("it is being opened")

// same reports whether requests that wait for s have nothing new to hope for
// from t.
func (s *Signer) same(t *Signer) bool {
	return s != nil && t != nil && s.Unready != nil && t.Unready != nil && slices.Equal(s.Requests, t.Requests)
}
