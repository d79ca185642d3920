package acmeorder

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

// The reasons for a revocation that a client can give (RFC 5280 section 5.3.1).
const (
	reasonUnspecified   = 0
	reasonKeyCompromise = 1
	reasonCessation     = 5
)

var clientReasons = []int{reasonUnspecified, reasonKeyCompromise, 3, 4, 5, 9}

// ByCertificateKey is recorded as the revoker if the request was signed with the
// certificate's key.
const ByCertificateKey = "certificate key"

// maxRevoked is the largest certificate in a request for its revocation, in bytes.
// A certificate is larger than its request, see maxCSR.
const maxRevoked = 24 << 10

// Revocation is a request to revoke a certificate (RFC 8555 section 7.6) whose
// signature is good.
type Revocation struct {
	// Certificate is its DER.
	Certificate []byte
	// Reason is nil if the client gives none.
	Reason *int
	// Order is the order whose certificate has the same serial number and issuer; nil if
	// there is none.
	Order *v1alpha1.AcmeOrder
	// Key is the key that signed the request, if it is not that of an account.
	Key crypto.PublicKey
	// Account is the name of the account that signed the request, Orders are its
	// orders.
	Account string
	Orders  []*v1alpha1.AcmeOrder
}

// ParseRevoked returns the certificate of a request for its revocation.
func ParseRevoked(der []byte) (*x509.Certificate, *rfc8555.Problem) {
	if len(der) > maxRevoked {
		return nil, rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "the certificate has more than %d bytes", maxRevoked)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "the certificate cannot be parsed")
	}
	return cert, nil
}

// Revoke returns the status of the order with the revocation of its certificate.
func Revoke(r Revocation, e *v1alpha1.AcmeEndpointSpec, now time.Time) (*v1alpha1.AcmeOrderStatus, *rfc8555.Problem) {
	cert, p := ParseRevoked(r.Certificate)
	if p != nil {
		return nil, p
	}
	reason := reasonUnspecified
	if r.Reason != nil {
		reason = *r.Reason
	}
	if !slices.Contains(clientReasons, reason) {
		return nil, rfc8555.NewProblem(400, rfc8555.ProblemBadRevocationReason, "the reason %d is not accepted: use 0, 1, 3, 4, 5 or 9", reason)
	}
	digest := sha256.Sum256(cert.Raw)
	if r.Order == nil || r.Order.Status.Certificate == nil || r.Order.Status.Certificate.Digest != hex.EncodeToString(digest[:]) {
		return nil, rfc8555.NewProblem(404, rfc8555.ProblemMalformed, "the certificate was not issued here")
	}
	by, p := r.by(cert, now)
	if p != nil {
		return nil, p
	}
	// An account that has only proven the names may not have the key, and must not block
	// it.
	if reason == reasonKeyCompromise && by != ByCertificateKey && r.Order.Spec.Account != r.Account {
		reason = reasonCessation
	}
	if p := checkRevocable(r, reason, by, e, now); p != nil {
		return nil, p
	}
	s := r.Order.Status.DeepCopy()
	s.Certificate.Revoked = &v1alpha1.AcmeRevoked{Time: *whole(now), Reason: int32(reason), By: by}
	return s, nil
}

// by returns in whose name the request may revoke the certificate.
func (r Revocation) by(cert *x509.Certificate, now time.Time) (string, *rfc8555.Problem) {
	switch {
	case r.Account == "" && pki.SameKey(cert.PublicKey, r.Key):
		return ByCertificateKey, nil
	case r.Account == "":
		return "", rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the request is signed with another key than the certificate's")
	case r.Order.Spec.Account == r.Account, r.provesAll(now):
		return r.Account, nil
	}
	return "", rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the account has not ordered the certificate, and has no authorizations for all its identifiers")
}

// provesAll reports whether the account has proven control of all identifiers of
// the certificate.
func (r Revocation) provesAll(now time.Time) bool {
	proven := map[v1alpha1.AcmeIdentifier]bool{}
	for _, o := range r.Orders {
		if o.Spec.Account != r.Account || o.Spec.Endpoint != r.Order.Spec.Endpoint {
			continue
		}
		for i := range o.Status.Authorizations {
			if a := &o.Status.Authorizations[i]; AuthorizationState(a, now) == rfc8555.StateValid {
				proven[v1alpha1.AcmeIdentifier(OrderedIdentifier(a))] = true
			}
		}
	}
	return !slices.ContainsFunc(r.Order.Spec.Identifiers, func(id v1alpha1.AcmeIdentifier) bool { return !proven[id] })
}

func checkRevocable(r Revocation, reason int, by string, e *v1alpha1.AcmeEndpointSpec, now time.Time) *rfc8555.Problem {
	c := r.Order.Status.Certificate
	raised := c.Revoked != nil && by == ByCertificateKey && reason == reasonKeyCompromise && c.Revoked.Reason != reasonKeyCompromise
	switch {
	case c.Revoked != nil && !raised:
		return rfc8555.NewProblem(400, rfc8555.ProblemAlreadyRevoked, "the certificate is revoked")
	case !now.Before(c.NotAfter.Time):
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the certificate has expired")
	case e.Revocation == v1alpha1.AcmeRevocationRefuse:
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "certificates are not revoked here: they end with their short lifetime")
	}
	return nil
}

// maxRevoker is the longest name of a user in an order, in bytes.
const maxRevoker = 253

// NoteRevoked returns the status of an order whose certificate somebody has revoked by a
// Revocation; nil if the order says so already.
func NoteRevoked(o *v1alpha1.AcmeOrder, reason pki.Reason, by string, at time.Time) *v1alpha1.AcmeOrderStatus {
	c := o.Status.Certificate
	if c == nil || c.Revoked != nil && (reason != pki.ReasonKeyCompromise || c.Revoked.Reason == reasonKeyCompromise) {
		return nil
	}
	s := o.Status.DeepCopy()
	if c.Revoked == nil {
		s.Certificate.Revoked = &v1alpha1.AcmeRevoked{Time: *whole(at), By: strings.ToValidUTF8(by[:min(len(by), maxRevoker)], "")}
	}
	s.Certificate.Revoked.Reason = int32(reason)
	return s
}

// RevocationReason returns the reason of a Revocation for one that Revoke accepts.
func RevocationReason(reason int32) v1alpha1.RevocationReason {
	return v1alpha1.RevocationReason(pki.Reason(reason).String())
}

// ReasonText returns the name of the reason for a revocation (RFC 5280 section 5.3.1).
func ReasonText(reason int32) string {
	switch reason {
	case 1:
		return "keyCompromise"
	case 3:
		return "affiliationChanged"
	case 4:
		return "superseded"
	case 5:
		return "cessationOfOperation"
	case 9:
		return "privilegeWithdrawn"
	}
	return "unspecified"
}

// IsBlocked reports whether a certificate blocks its key: no certificate request
// and no account may have it (RFC 5280 section 5.3.1, keyCompromise).
func IsBlocked(c *v1alpha1.AcmeCertificate) bool {
	return c != nil && c.Revoked != nil && c.Revoked.Reason == reasonKeyCompromise
}
