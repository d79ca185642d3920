package authn

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// RevokedClients decides which clients are refused because a certificate is revoked: one that
// they present, or a CA of clients that has signed one. It is safe for concurrent use.
//
// It is not an authenticator: those form a union, in which a token would be accepted beside a
// revoked certificate.
type RevokedClients struct {
	index *revocation.Index
	cas   dynamiccertificates.CAContentProvider
	// changes is how often the CAs have changed.
	changes atomic.Uint64
	known   atomic.Pointer[revokedCAs]
}

var _ dynamiccertificates.Listener = &RevokedClients{}

// revokedCAs are the revoked ones among the CAs of clients, at one state of these and of the
// index.
type revokedCAs struct {
	changes uint64
	changed <-chan struct{} // of the index
	revoked []revokedCA
	// standing are the other CAs.
	standing []*x509.Certificate
}

type revokedCA struct {
	cert *x509.Certificate
	why  *Refusal
}

// Refusal is why a client is refused.
type Refusal struct {
	// Certificate is what is revoked.
	Certificate *x509.Certificate
	Revoked     revocation.Revoked
}

// Message tells the client, which has proven that it has the key, why it is refused.
func (r *Refusal) Message() string {
	which := "client"
	if r.Certificate.IsCA {
		which = "CA"
	}
	return fmt.Sprintf("the %s certificate with serial number %s was revoked on %s: %s", which, r.Certificate.SerialNumber.Text(16), r.Revoked.Time.Format(time.RFC3339), r.Revoked.Reason)
}

// NewRevokedClients returns the decisions by an index about clients of CAs.
func NewRevokedClients(index *revocation.Index, cas dynamiccertificates.CAContentProvider) *RevokedClients {
	r := &RevokedClients{index: index, cas: cas}
	cas.AddListener(r)
	return r
}

// Enqueue implements dynamiccertificates.Listener: the CAs have changed.
func (r *RevokedClients) Enqueue() { r.changes.Add(1) }

// Refusal returns why a client that presents these certificates, its own first, is refused;
// nil if it is not.
func (r *RevokedClients) Refusal(presented []*x509.Certificate) *Refusal {
	if r.index.Len() == 0 {
		return nil
	}
	for _, cert := range presented {
		if revoked, ok := r.index.Certificate(cert); ok {
			return &Refusal{cert, revoked}
		}
	}
	cas := r.clientCAs()
	for _, cert := range presented {
		if why := cas.refusal(cert); why != nil {
			return why
		}
	}
	return nil
}

// clientCAs returns the CAs of clients, which clients need not present. A CA below a revoked
// one counts as revoked.
func (r *RevokedClients) clientCAs() *revokedCAs {
	changes := r.changes.Load()
	_, changed := r.index.Changed()
	if known := r.known.Load(); known != nil && known.changes == changes && known.changed == changed {
		return known
	}
	cas := &revokedCAs{changes: changes, changed: changed}
	all, _ := pki.ParseBundle(r.cas.CurrentCABundleContent()) // the providers accept nothing that cannot be parsed
	for _, ca := range all {
		if revoked, ok := r.index.Certificate(ca); ok {
			cas.revoked = append(cas.revoked, revokedCA{ca, &Refusal{ca, revoked}})
		} else {
			cas.standing = append(cas.standing, ca)
		}
	}
	for more := len(cas.revoked) > 0; more; {
		more = false
		for n, ca := range cas.standing {
			if why := cas.refusal(ca); why != nil {
				cas.revoked, cas.standing, more = append(cas.revoked, revokedCA{ca, why}), slices.Delete(cas.standing, n, n+1), true
				break
			}
		}
	}
	r.known.Store(cas)
	return cas
}

// refusal returns why a certificate is refused that a revoked CA has signed, and no other one:
// a CA can have several certificates for one key.
func (c *revokedCAs) refusal(cert *x509.Certificate) *Refusal {
	signedIt := func(ca *x509.Certificate) bool { return isIssuedBy(cert, ca) }
	for _, ca := range c.revoked {
		if signedIt(ca.cert) && !slices.ContainsFunc(c.standing, signedIt) {
			return ca.why
		}
	}
	return nil
}

// isIssuedBy reports whether a CA has signed a certificate.
func isIssuedBy(cert, ca *x509.Certificate) bool {
	return bytes.Equal(cert.RawIssuer, ca.RawSubject) && cert.CheckSignatureFrom(ca) == nil
}
