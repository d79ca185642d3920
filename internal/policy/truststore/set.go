// Package truststore collects the certificates that programs trust.
package truststore

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// Filter describes certificates that do not belong in a trust store: those that have expired,
// and those that are not of CAs.
type Filter struct{ Expired, NonCA bool }

// At returns the filter for Set.Keep at a time.
func (f Filter) At(now time.Time) func(*x509.Certificate) bool {
	return func(cert *x509.Certificate) bool {
		return !(f.Expired && now.After(cert.NotAfter)) && !(f.NonCA && !cert.IsCA)
	}
}

// Set is a set of certificates. The zero value is empty. It is not safe for concurrent changes.
type Set struct {
	// Keep reports whether a certificate may be in the set; Add leaves out the others. Nil
	// accepts all.
	Keep func(*x509.Certificate) bool

	certs map[string]*x509.Certificate // by fingerprint
}

// unreadableRoot is the fingerprint of EC-ACC, a public root of 2003 in packages of public roots,
// whose negative serial number crypto/x509 refuses.
const unreadableRoot = "88497f01602f3154246ae28c4d5aef10f1d87ebb76626f4ae0b7f95ba7968799"

// AddPEM adds the certificates in data. It ignores text, and blocks that encoding/pem does not
// recognise. A block that is not a certificate, cannot be parsed or has headers is an error: it
// may be a private key, and would be published. After an error, the set can hold a part of
// data. Errors show no content but names in a malformed certificate.
func (s *Set) AddPEM(data []byte) error {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil
		}
		switch {
		case block.Type != pki.CertificateBlockType:
			return fmt.Errorf("invalid PEM block in bundle: only CERTIFICATE blocks are permitted but found '%s'", label(block.Type))
		case len(block.Headers) > 0:
			return errors.New("invalid PEM block in bundle; blocks are not permitted to have PEM headers")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil {
			s.Add(cert)
		} else if fmt.Sprintf("%x", sha256.Sum256(block.Bytes)) != unreadableRoot {
			return fmt.Errorf("invalid PEM block in bundle; invalid PEM certificate: %w", err)
		}
	}
}

// label returns the label of a PEM block, unless it could be content that must stay secret.
func label(label string) string {
	if len(label) > 30 || strings.Trim(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ") != "" {
		return "(unusual label)"
	}
	return label
}

// Add adds a certificate if the set keeps it.
func (s *Set) Add(cert *x509.Certificate) {
	if s.certs == nil {
		s.certs = map[string]*x509.Certificate{}
	}
	if s.Keep == nil || s.Keep(cert) {
		s.certs[pki.Fingerprint(cert)] = cert
	}
}

// Len returns the number of certificates.
func (s *Set) Len() int { return len(s.certs) }

// Certificates returns the certificates, sorted by their fingerprints.
func (s *Set) Certificates() []*x509.Certificate {
	var certs []*x509.Certificate
	for _, fingerprint := range slices.Sorted(maps.Keys(s.certs)) {
		certs = append(certs, s.certs[fingerprint])
	}
	return certs
}

// PEM returns the certificates in PEM, sorted by their fingerprints, without a final line break.
func (s *Set) PEM() []byte { return bytes.TrimSpace(pki.EncodeCertificates(s.Certificates()...)) }
