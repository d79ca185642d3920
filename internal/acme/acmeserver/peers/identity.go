package peers

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// serverName is the TLS server name that peers use in place of the name of the server. The
// domain cannot be registered (RFC 6761 section 6.4).
const serverName = "peers.certplane.invalid"

// identity is the key of this process, in a certificate, as TLS needs it.
type identity struct {
	certificate tls.Certificate
	digest      string
}

// newIdentity makes a key that lives as long as the process.
func newIdentity(now time.Time) (*identity, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, fmt.Errorf("making the key for peers: %w", err)
	}
	// Peers compare the key alone.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{serverName}, NotBefore: now, NotAfter: now.AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate for peers: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making the certificate for peers: %w", err)
	}
	return &identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, digestOf(leaf)}, nil
}

// digestOf names the key of a certificate.
func digestOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// errOtherKey: another process has the address of a peer.
var errOtherKey = errors.New("the process at the address of a peer has another key")

// toward returns the configuration for connections to the holder of a key.
func (i *identity) toward(key string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: serverName, Certificates: []tls.Certificate{i.certificate},
		InsecureSkipVerify: true, // the key is compared instead
		VerifyConnection: func(state tls.ConnectionState) error {
			if digestOf(state.PeerCertificates[0]) != key {
				return errOtherKey
			}
			return nil
		},
	}
}

// fromPeers returns the configuration for connections of those whose keys accept
// returns no error for.
func (i *identity) fromPeers(accept func(key string) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.certificate}, ClientAuth: tls.RequireAnyClientCert,
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error { return accept(digestOf(state.PeerCertificates[0])) },
	}
}
