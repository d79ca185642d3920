package signer_test

import (
	"crypto/x509"
	"net"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
)

var (
	signature    = certificatesv1.UsageDigitalSignature
	encipherment = certificatesv1.UsageKeyEncipherment
	clientAuth   = certificatesv1.UsageClientAuth
	serverAuth   = certificatesv1.UsageServerAuth

	node       = pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}
	addressed  = pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}, DNSNames: []string{"n1.example.com"}, IPAddresses: []net.IP{{192, 0, 2, 1}}}
	everything = pki.Subject{
		CommonName: "bob", DNSNames: []string{"bob.example.com"}, IPAddresses: []net.IP{{192, 0, 2, 2}},
		EmailAddresses: []string{"bob@example.com"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/bob"}},
	}
	nobody = pki.Subject{}
)

func usages(list ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage { return list }

func signBy(t *testing.T, profile signer.Profile, subject pki.Subject, usages []certificatesv1.KeyUsage) (*signer.Issued, error) {
	t.Helper()
	pem, err := pki.NewRequest(subject, ecKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return local(profile, newRoot(t))(t.Context(), asking(pem, usages, nil), now)
}

// TestProfiles: what each signer signs, and which usages come of it.
func TestProfiles(t *testing.T) {
	const signs, enciphers = x509.KeyUsageDigitalSignature, x509.KeyUsageKeyEncipherment
	client, server := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	tests := []struct {
		reason   string
		signer   string
		subject  pki.Subject
		usages   []certificatesv1.KeyUsage
		key      x509.KeyUsage
		extended []x509.ExtKeyUsage
	}{
		{"client of the API", apiServerClient, everything, usages(signature, encipherment, clientAuth), signs | enciphers, client},
		{"client of the API that cannot encipher", apiServerClient, everything, usages(signature, clientAuth), signs, client},
		{"client of the API, in a usage alone", apiServerClient, everything, usages(clientAuth), 0, client},
		{"a node in its role of any client", apiServerClient, addressed, usages(clientAuth), 0, client},

		{"node client", nodeClient, node, usages(signature, encipherment, clientAuth), signs | enciphers, client},
		{"node client that cannot encipher", nodeClient, node, usages(signature, clientAuth), signs, client},
		{"node client: usages are a set", nodeClient, node, usages(clientAuth, signature, clientAuth), signs, client},

		{"node server", nodeServing, addressed, usages(signature, encipherment, serverAuth), signs | enciphers, server},
		{"node server that cannot encipher", nodeServing, addressed, usages(signature, serverAuth), signs, server},

		{"legacy: no usages", signer.LegacyUnknown, everything, nil, 0, nil},
		{"legacy: no subject, no usages", signer.LegacyUnknown, pki.Subject{DNSNames: everything.DNSNames}, nil, 0, nil},
		{"legacy: a mixture", signer.LegacyUnknown, everything, usages("any", "s/mime", "signing", "email protection", "ocsp signing", serverAuth), signs, []x509.ExtKeyUsage{
			x509.ExtKeyUsageAny, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageEmailProtection, x509.ExtKeyUsageOCSPSigning,
		}},
		{"legacy: a node", signer.LegacyUnknown, node, usages(signature, serverAuth, clientAuth), signs, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			issued, err := signBy(t, lookup(t, tc.signer), tc.subject, tc.usages)
			if err != nil {
				t.Fatal(err)
			}
			cert := issued.Certificate
			if cert.KeyUsage != tc.key || cert.IsCA || !cert.BasicConstraintsValid {
				t.Errorf("key usage %b, want %b; a CA: %v", cert.KeyUsage, tc.key, cert.IsCA)
			}
			if diff := cmp.Diff(tc.extended, cert.ExtKeyUsage); diff != "" {
				t.Errorf("extended usages (-want +got):\n%s", diff)
			}
			got := pki.Subject{
				CommonName: cert.Subject.CommonName, Organizations: cert.Subject.Organization,
				DNSNames: cert.DNSNames, IPAddresses: cert.IPAddresses, EmailAddresses: cert.EmailAddresses, URIs: cert.URIs,
			}
			if diff := cmp.Diff(tc.subject, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProfilesRefuse: that a signer asks the checks that are its own. Their
// order and all their texts are tested where the checks are.
func TestProfilesRefuse(t *testing.T) {
	const (
		refused  = "CertificateRefused"
		mismatch = "SignerValidationFailure"
		aboveAll = "a certificate of group system:masters cannot be requested: name another organization and grant it what it needs"
	)
	master := pki.Subject{CommonName: "mallory", Organizations: []string{"others", "system:masters"}}
	tests := []struct {
		reason  string
		signer  string
		subject pki.Subject
		usages  []certificatesv1.KeyUsage
		want    string
		message string
	}{
		{"node client: a server's usage", nodeClient, node, usages(signature, serverAuth), mismatch, "usages did not match [client auth digital signature key encipherment]"},
		{"node client: names", nodeClient, addressed, usages(signature, clientAuth), mismatch, "DNS subjectAltNames are not allowed"},
		{"node client: another's name", nodeClient, everything, usages(signature, clientAuth), mismatch, "subject organization is not system:nodes"},
		{"node server: a client's usage", nodeServing, addressed, usages(signature, clientAuth), mismatch, "usages did not match [digital signature key encipherment server auth]"},
		{"node server: no names", nodeServing, node, usages(signature, serverAuth), mismatch, "DNS or IP subjectAltName is required"},
		{"client: above authorization", apiServerClient, master, usages(clientAuth), mismatch, aboveAll},
		{"legacy: above authorization", signer.LegacyUnknown, master, usages(signature, clientAuth), mismatch, aboveAll},
		{"legacy: above authorization, as a server", signer.LegacyUnknown, master, usages(serverAuth), mismatch, aboveAll},
		{"an unknown usage", signer.LegacyUnknown, everything, usages("world domination"), mismatch, `unrecognized usage values: ["world domination"]`},
		{"legacy: not even this signer makes a CA", signer.LegacyUnknown, everything, usages("cert sign"), refused,
			"refusing to sign: usage cert sign needs a CA certificate (RFC 5280 section 4.2.1.9)"},
		{"legacy: nor a certificate of nobody", signer.LegacyUnknown, nobody, nil, refused,
			"refusing to sign: certificate would have no name: subject and subjectAltName are empty (RFC 5280 section 4.1.2.6)"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			issued, err := signBy(t, lookup(t, tc.signer), tc.subject, tc.usages)
			if issued != nil {
				t.Fatalf("issued %s", issued.Certificate.Subject)
			}
			assertVerdict(t, err, tc.want, tc.message, false)
		})
	}
}

// TestStrict: names of nodes have to be valid, other names need not be.
func TestStrict(t *testing.T) {
	const wrong = "subject common name has no valid node name after system:node:"
	capital := func(subject pki.Subject) pki.Subject {
		subject.CommonName = "system:node:N1"
		return subject
	}
	tests := []struct {
		signer  string
		subject pki.Subject
		usages  []certificatesv1.KeyUsage
		strict  string // the error of a strict signer
	}{
		{nodeClient, node, usages(signature, clientAuth), ""},
		{nodeClient, capital(node), usages(signature, clientAuth), wrong},
		{nodeServing, addressed, usages(signature, serverAuth), ""},
		{nodeServing, capital(addressed), usages(signature, serverAuth), wrong},
		{apiServerClient, capital(node), usages(signature, clientAuth), ""},
		{signer.LegacyUnknown, capital(node), nil, ""},
	}
	for _, tc := range tests {
		t.Run(tc.signer+" "+tc.subject.CommonName, func(t *testing.T) {
			profile := lookup(t, tc.signer)
			if _, err := signBy(t, profile, tc.subject, tc.usages); err != nil {
				t.Errorf("not strict: %v", err)
			}
			_, err := signBy(t, profile.With(signer.Limits{MaxDuration: profile.Lifetime.Max, MinRSABits: 1024, Strict: true}), tc.subject, tc.usages)
			if tc.strict != "" {
				assertVerdict(t, err, "SignerValidationFailure", tc.strict, false)
			} else if err != nil {
				t.Errorf("strict: %v", err)
			}
		})
	}
}
