package signer

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"

	"github.com/certplane/certplane/internal/pki"
)

// CheckPrivilege refuses a subject that an API server would treat as a member
// of system:masters: the organizations of a client's subject are its groups,
// and that group bypasses authorization and cannot be revoked.
func CheckPrivilege(subject pkix.Name) error {
	if slices.Contains(subject.Organization, pki.Masters) {
		return fmt.Errorf("a certificate of group %s cannot be requested: name another organization and grant it what it needs", pki.Masters)
	}
	return nil
}

// Honoured returns the CAs whose client certificates an API server accepts. It
// is called for each certificate and must be fast. Nil means that none are
// known.
type Honoured func() []*x509.Certificate

// Rule returns the additional linter rule for certificates of ca; nil if the
// API server does not accept its client certificates.
func (h Honoured) Rule(ca *pki.Authority) func(*x509.Certificate) error {
	if !h.includes(append(ca.Chain(ca.Certificate()), ca.Anchor())) {
		return nil
	}
	return checkHonoured
}

// Check refuses a certificate from another signer, with its CAs, that would
// have too many privileges at the API server.
func (h Honoured) Check(chain []*x509.Certificate) error {
	if CheckPrivilege(chain[0].Subject) == nil && !chain[0].IsCA || !h.includes(chain) {
		return nil
	}
	return checkHonoured(chain[0])
}

// checkHonoured refuses CAs: a CA below an honoured one could issue a client
// certificate for any user, without these checks.
func checkHonoured(cert *x509.Certificate) error {
	if cert.IsCA {
		return errors.New("the API server honours client certificates of this CA: a CA below it could make members of any group")
	}
	return CheckPrivilege(cert.Subject)
}

// includes reports whether one of the certificates has the key of an honoured
// CA, or was issued by one.
func (h Honoured) includes(certs []*x509.Certificate) bool {
	if h == nil {
		return false
	}
	for _, honoured := range h() {
		for _, cert := range certs {
			if bytes.Equal(cert.RawSubjectPublicKeyInfo, honoured.RawSubjectPublicKeyInfo) ||
				bytes.Equal(cert.RawIssuer, honoured.RawSubject) && cert.CheckSignatureFrom(honoured) == nil {
				return true
			}
		}
	}
	return false
}
