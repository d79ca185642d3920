package inspect

import (
	"crypto/x509"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
)

// Certificate holds the facts of a certificate, for JSON and YAML.
type Certificate struct {
	Subject string `json:"subject"`
	Issuer  string `json:"issuer"`
	// Names are the subject alternative names, each with its kind in front:
	// DNS:, IP:, URI:, email: or otherName:, which has its type before its value.
	Names []string `json:"names,omitempty"`
	// Usages are called as in the API: "digital signature", "server auth".
	Usages    []string  `json:"usages,omitempty"`
	IsCA      bool      `json:"isCA"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	// Key is the kind of the public key: "ECDSA P-256", "RSA 2048", "Ed25519".
	Key                string `json:"key"`
	SignatureAlgorithm string `json:"signatureAlgorithm"`
	// SerialNumber is hexadecimal, in small letters without a separator; SHA256,
	// the fingerprint, is too.
	SerialNumber string `json:"serialNumber"`
	SHA256       string `json:"sha256"`
	// Where CRLs, OCSP and the certificate of the issuer are served.
	CRLDistributionPoints  []string `json:"crlDistributionPoints,omitempty"`
	OCSPServers            []string `json:"ocspServers,omitempty"`
	IssuingCertificateURLs []string `json:"issuingCertificateURLs,omitempty"`
}

// Describe returns the facts of a certificate.
func Describe(cert *x509.Certificate) Certificate {
	usages := pki.UsagesOf(cert)
	return Certificate{
		Subject: cert.Subject.String(), Issuer: cert.Issuer.String(),
		Names: pki.CertificateNames(cert), Usages: usages.Names(), IsCA: cert.IsCA,
		NotBefore: cert.NotBefore.UTC(), NotAfter: cert.NotAfter.UTC(),
		Key: pki.KeyName(cert.PublicKey), SignatureAlgorithm: cert.SignatureAlgorithm.String(),
		SerialNumber: cert.SerialNumber.Text(16), SHA256: pki.Fingerprint(cert),
		CRLDistributionPoints: cert.CRLDistributionPoints, OCSPServers: cert.OCSPServer, IssuingCertificateURLs: cert.IssuingCertificateURL,
	}
}

func describeAll(certs []*x509.Certificate) []Certificate {
	var all []Certificate
	for _, cert := range certs {
		all = append(all, Describe(cert))
	}
	return all
}

// Rows returns the facts as text, each with its name.
func (c Certificate) Rows(now time.Time) [][]string {
	rows := [][]string{
		{"subject", print.OrNone(c.Subject)},
		{"issuer", print.OrNone(c.Issuer)},
		{"names", print.OrNone(strings.Join(c.Names, ", "))},
		{"usages", print.OrNone(strings.Join(c.Usages, ", "))},
		{"CA", yesNo(c.IsCA)},
		{"not before", When(c.NotBefore, now)},
		{"not after", When(c.NotAfter, now)},
		{"key", c.Key},
		{"signature", c.SignatureAlgorithm},
		{"serial", c.SerialNumber},
		{"SHA-256", c.SHA256},
	}
	for _, at := range []struct {
		name string
		urls []string
	}{{"CRL at", c.CRLDistributionPoints}, {"OCSP at", c.OCSPServers}, {"issuer at", c.IssuingCertificateURLs}} {
		if len(at.urls) > 0 {
			rows = append(rows, []string{at.name, strings.Join(at.urls, ", ")})
		}
	}
	return rows
}
