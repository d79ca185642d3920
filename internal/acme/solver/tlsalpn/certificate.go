// Package tlsalpn answers TLS-ALPN-01 challenges (RFC 8737).
package tlsalpn

import (
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/live"
)

// Protocol is the only protocol that a validation offers (RFC 8737 section 6.2).
const Protocol = "acme-tls/1"

// lifetime is for how long certificates are valid, before and after now. No
// client verifies it.
const lifetime = 24 * time.Hour

// acmeIdentifier is the OID of the extension with the hash of the key
// authorization (RFC 8737 section 6.1).
var acmeIdentifier = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}

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
		ExtraExtensions: []pkix.Extension{{Id: acmeIdentifier, Critical: true, Value: value}},
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

// verify returns why a certificate is not the answer to a challenge, as an ACME
// server would.
func verify(certificate *x509.Certificate, host, key string) error {
	sans := len(certificate.DNSNames) + len(certificate.IPAddresses) + len(certificate.EmailAddresses) + len(certificate.URIs)
	address, err := netip.ParseAddr(host)
	switch {
	case sans != 1:
		return fmt.Errorf("its certificate has %d alternative names, expected 1", sans)
	case err == nil && (len(certificate.IPAddresses) != 1 || !certificate.IPAddresses[0].Equal(address.AsSlice())),
		err != nil && (len(certificate.DNSNames) != 1 || live.Host(certificate.DNSNames[0]) != live.Host(host)):
		return errors.New("its certificate is for another name")
	}
	return verifyHash(certificate, key)
}

func verifyHash(certificate *x509.Certificate, key string) error {
	for _, extension := range certificate.Extensions {
		if !extension.Id.Equal(acmeIdentifier) {
			continue
		}
		var got []byte
		want := sha256.Sum256([]byte(key))
		rest, err := asn1.Unmarshal(extension.Value, &got)
		switch {
		case !extension.Critical:
			return errors.New("the extension acmeIdentifier of its certificate is not critical")
		case err != nil || len(rest) > 0 || subtle.ConstantTimeCompare(got, want[:]) != 1:
			return errors.New("its certificate is that of another challenge")
		}
		return nil
	}
	return errors.New("its certificate has no extension acmeIdentifier: it is not one of a challenge")
}
