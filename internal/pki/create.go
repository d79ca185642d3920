package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"
)

// Subject has the names for a certificate. Every field is optional.
type Subject struct {
	CommonName    string
	Organizations []string

	DNSNames       []string
	IPAddresses    []net.IP
	URIs           []*url.URL
	EmailAddresses []string
}

func (s Subject) name() pkix.Name {
	return pkix.Name{CommonName: s.CommonName, Organization: s.Organizations}
}

// NewRequest makes a PKCS#10 certificate request in PEM, signed with key.
func NewRequest(s Subject, key crypto.Signer) ([]byte, error) {
	return newRequest(&x509.CertificateRequest{
		Subject:        s.name(),
		DNSNames:       s.DNSNames,
		IPAddresses:    s.IPAddresses,
		URIs:           s.URIs,
		EmailAddresses: s.EmailAddresses,
	}, key)
}

func newRequest(template *x509.CertificateRequest, key crypto.Signer) ([]byte, error) {
	der, err := newRequestDER(template, key)
	if err != nil {
		return nil, err
	}
	return EncodeRequest(&x509.CertificateRequest{Raw: der}), nil
}

// NewStubRequest makes a PKCS#10 certificate request in DER that has nothing but
// a key, for PodCertificateRequests.
func NewStubRequest(key crypto.Signer) ([]byte, error) {
	return newRequestDER(&x509.CertificateRequest{}, key)
}

func newRequestDER(template *x509.CertificateRequest, key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("making certificate request: %w", err)
	}
	return der, nil
}

// DefaultRootLifetime is the default lifetime for a root from NewRoot: ten
// years.
const DefaultRootLifetime = 10 * 365 * 24 * time.Hour

// backdate is the backdate of certificates that are issued without a request.
const backdate = 5 * time.Minute

// NewRoot makes a self-signed CA of the given name.
func NewRoot(by Signing, commonName string, key crypto.Signer, lifetime time.Duration, now time.Time) (*Authority, error) {
	template, err := caTemplate(by.rand, commonName, key.Public(), lifetime, now)
	if err != nil {
		return nil, fmt.Errorf("making root CA %q: %w", commonName, err)
	}
	linted, err := LintSelfSigned(template, key, Policy{})
	if err != nil {
		return nil, fmt.Errorf("making root CA %q: %w", commonName, err)
	}
	cert, err := by.sign(linted)
	if err != nil {
		return nil, fmt.Errorf("making root CA %q: %w", commonName, err)
	}
	return NewAuthority([]*x509.Certificate{cert}, key)
}

func caTemplate(rand io.Reader, commonName string, key crypto.PublicKey, lifetime time.Duration, now time.Time) (*x509.Certificate, error) {
	serial, err := NewSerial(rand)
	if err != nil {
		return nil, err
	}
	id, err := KeyID(key)
	if err != nil {
		return nil, err
	}
	validity := Validity{NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime)}.wholeSeconds()
	return &x509.Certificate{
		PublicKey:             key,
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             validity.NotBefore,
		NotAfter:              validity.NotAfter,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		SubjectKeyId:          id,
	}, nil
}

// NewIntermediate makes a CA of the given name below this one. It issues
// end-entity certificates and no further CAs: its path length is 0 (RFC 5280
// section 4.2.1.9). It does not outlive this CA.
func (a *Authority) NewIntermediate(by Signing, commonName string, key crypto.Signer, lifetime time.Duration, now time.Time) (*Authority, error) {
	intermediate, err := a.newIntermediate(by, commonName, key, lifetime, now)
	if err != nil {
		return nil, fmt.Errorf("making intermediate CA %q: %w", commonName, err)
	}
	return intermediate, nil
}

func (a *Authority) newIntermediate(by Signing, commonName string, key crypto.Signer, lifetime time.Duration, now time.Time) (*Authority, error) {
	template, err := caTemplate(by.rand, commonName, key.Public(), lifetime, now)
	if err != nil {
		return nil, err
	}
	validity, err := Lifetime{Max: lifetime, Backdate: backdate, Short: lifetime + 1}.Validity(nil, a.Validity(), now)
	if err != nil {
		return nil, err
	}
	template.NotBefore, template.NotAfter = validity.NotBefore, validity.NotAfter
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	template.MaxPathLenZero = true
	linted, err := a.LintCA(template, Policy{Status: by.status})
	if err != nil {
		return nil, err
	}
	cert, err := by.sign(linted)
	if err != nil {
		return nil, err
	}
	return NewAuthority(append([]*x509.Certificate{cert}, a.upward()...), key)
}

// upward returns the CA and the certificates that link it to its root. The root
// is included only if the CA is itself a root.
func (a *Authority) upward() []*x509.Certificate {
	if len(a.chain) == 0 {
		return []*x509.Certificate{a.ca}
	}
	return a.chain
}

// Issue issues a certificate for a key of this program without a request, for example for a
// server or a client at first start. It returns the certificate with its chain.
func (a *Authority) Issue(by Signing, s Subject, key crypto.PublicKey, usages Usages, lifetime time.Duration, now time.Time) ([]*x509.Certificate, error) {
	serial, err := NewSerial(by.rand)
	if err != nil {
		return nil, err
	}
	rule := Lifetime{Max: lifetime, Backdate: backdate, Short: lifetime + 1}
	validity, err := rule.Validity(nil, a.Validity(), now)
	if err != nil {
		return nil, err
	}
	linted, err := a.Lint(subjectTemplate(s, key, usages, validity, serial), Policy{Status: by.status})
	if err != nil {
		return nil, err
	}
	leaf, err := by.sign(linted)
	if err != nil {
		return nil, err
	}
	return a.Chain(leaf), nil
}

// ServerUsages returns the usages of a TLS server's certificate.
func ServerUsages() Usages {
	return Usages{Key: x509.KeyUsageDigitalSignature, Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

// ClientUsages returns the usages of a TLS client's certificate.
func ClientUsages() Usages {
	return Usages{Key: x509.KeyUsageDigitalSignature, Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}
