// Package tlsalpn answers TLS-ALPN-01 challenges (RFC 8737).
package tlsalpn

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Protocol is the only protocol that a validation offers (RFC 8737 section 6.2).
const Protocol = rfc8555.TLSALPNProtocol

// lifetime is for how long certificates are valid, before and after now. No
// client verifies it.
const lifetime = 24 * time.Hour

// newCertificate returns the certificate for a challenge.
func newCertificate(c live.Challenge, key crypto.Signer, now time.Time) (*tls.Certificate, error) {
	hash := sha256.Sum256([]byte(c.Key))
	value, err := asn1.Marshal(hash[:])
	if err != nil {
		return nil, fmt.Errorf("encoding the hash of the key authorization: %w", err)
	}
	template := &x509.Certificate{
		// Which it is does not matter. It differs with each challenge.
		SerialNumber:    new(big.Int).SetBytes(hash[:16]),
		Subject:         pkix.Name{CommonName: "TLS-ALPN-01 challenge"},
		NotBefore:       now.Add(-lifetime),
		NotAfter:        now.Add(lifetime),
		KeyUsage:        x509.KeyUsageDigitalSignature,
		ExtKeyUsage:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		ExtraExtensions: []pkix.Extension{{Id: rfc8555.AcmeIdentifier, Critical: true, Value: value}},
	}
	if address := net.ParseIP(c.Host); address != nil {
		template.IPAddresses = []net.IP{address}
	} else {
		template.DNSNames = []string{c.Host}
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of the challenge %s: %w", c.NamespacedName, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
