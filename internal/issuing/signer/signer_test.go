package signer_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
)

func TestLookup(t *testing.T) {
	want := []string{apiServerClient, nodeClient, nodeServing, signer.LegacyUnknown}
	if diff := cmp.Diff(want, signer.Names()); diff != "" {
		t.Errorf("signers (-want +got):\n%s", diff)
	}
	for _, name := range want {
		if profile, err := signer.Lookup(name); err != nil || profile.SignerName != name {
			t.Errorf("%s: %+v, %v", name, profile, err)
		}
	}
	for _, name := range []string{"", "kubernetes.io/unknown", "example.com/signer"} {
		if _, err := signer.Lookup(name); err == nil {
			t.Errorf("there is a signer %q", name)
		}
	}
}

// TestAPIServerClientUsages covers usages that are accepted; the refused ones
// are among the verdicts.
func TestAPIServerClientUsages(t *testing.T) {
	tests := []struct {
		reason   string
		usages   []certificatesv1.KeyUsage
		key      x509.KeyUsage
		extended []x509.ExtKeyUsage
	}{
		{reason: "with key encipherment", usages: clientUsages, key: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment},
		{reason: "without", usages: []certificatesv1.KeyUsage{"client auth", "digital signature"}, key: x509.KeyUsageDigitalSignature},
		{reason: "client auth alone", usages: []certificatesv1.KeyUsage{"client auth"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			issued, err := sign(t, newRoot(t), asking(newRequest(t), tc.usages, nil))
			if err != nil {
				t.Fatal(err)
			}
			if issued.Certificate.KeyUsage != tc.key {
				t.Errorf("key usage %b, want %b", issued.Certificate.KeyUsage, tc.key)
			}
			if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, issued.Certificate.ExtKeyUsage); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDurations(t *testing.T) {
	seconds := func(n int) *time.Duration { d := time.Duration(n) * time.Second; return &d }
	tests := []struct {
		reason    string
		limit     time.Duration
		requested *time.Duration
		end       time.Duration
	}{
		{reason: "nothing asked", limit: 24 * time.Hour, end: 24*time.Hour - 5*time.Minute},
		{reason: "24h", limit: 24 * time.Hour, requested: seconds(86400), end: 24*time.Hour - 5*time.Minute},
		{reason: "48h", limit: 24 * time.Hour, requested: seconds(2 * 86400), end: 24*time.Hour - 5*time.Minute},
		{reason: "20h", limit: 24 * time.Hour, requested: seconds(20 * 3600), end: 20*time.Hour - 5*time.Minute},
		{reason: "10h", limit: 24 * time.Hour, requested: seconds(10 * 3600), end: 10*time.Hour - 5*time.Minute},
		{reason: "2h", limit: 24 * time.Hour, requested: seconds(2 * 3600), end: 2 * time.Hour},
		{reason: "30m", limit: 24 * time.Hour, requested: seconds(1800), end: 30 * time.Minute},
		{reason: "10m", limit: 24 * time.Hour, requested: seconds(600), end: 10 * time.Minute},
		{reason: "an older object with less than the API allows", limit: 24 * time.Hour, requested: seconds(-1), end: 10 * time.Minute},
		{reason: "3h of at most 1h", limit: time.Hour, requested: seconds(3 * 3600), end: time.Hour},
		{reason: "the default maximum", end: 8760*time.Hour - 5*time.Minute},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			profile := lookup(t, apiServerClient)
			if tc.limit != 0 {
				profile = profile.With(signer.Limits{MaxDuration: tc.limit, MinRSABits: 1024})
			}
			issued, err := local(profile, oldRoot(t))(t.Context(), asking(newRequest(t), clientUsages, tc.requested), now)
			if err != nil {
				t.Fatal(err)
			}
			if got := issued.Certificate.NotBefore.Sub(now); got != -5*time.Minute {
				t.Errorf("begins at %v, want -5m", got)
			}
			if got := issued.Certificate.NotAfter.Sub(now); got != tc.end {
				t.Errorf("ends at %v, want %v", got, tc.end)
			}
		})
	}
}

// TestSignsAsKubernetes is the example of kube-controller-manager's own test:
// three hours asked of a signer that gives one.
func TestSignsAsKubernetes(t *testing.T) {
	ca, asked := oldRoot(t), 3*time.Hour
	profile := lookup(t, signer.LegacyUnknown).With(signer.Limits{MaxDuration: time.Hour, MinRSABits: 1024})
	issued, err := local(profile, ca)(t.Context(), asking(newRequest(t), usages("signing", "key encipherment", "server auth", "client auth"), &asked), now)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := pki.ParseCertificates(issued.PEM)
	if err != nil || len(chain) != 1 {
		t.Fatalf("%d certificates, error %v", len(chain), err)
	}
	cert := chain[0]
	if !cert.NotBefore.Equal(now.Add(-5*time.Minute)) || !cert.NotAfter.Equal(now.Add(time.Hour)) {
		t.Errorf("valid from %v to %v", cert.NotBefore, cert.NotAfter)
	}
	if cert.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment || !cert.BasicConstraintsValid || cert.IsCA {
		t.Errorf("key usage %b, a CA: %v", cert.KeyUsage, cert.IsCA)
	}
	if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, cert.ExtKeyUsage); diff != "" {
		t.Errorf("extended usages (-want +got):\n%s", diff)
	}
	if !bytes.Equal(cert.RawIssuer, ca.Certificate().RawSubject) || !bytes.Equal(cert.AuthorityKeyId, ca.Certificate().SubjectKeyId) || len(cert.SubjectKeyId) == 0 {
		t.Errorf("issuer %s, key identifiers %x and %x", cert.Issuer, cert.SubjectKeyId, cert.AuthorityKeyId)
	}
}

// TestCut: ShortenedBy is exact to the second.
func TestCut(t *testing.T) {
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "ends soon", ecKey(t), 2*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	hours := func(n int) *time.Duration { d := time.Duration(n) * time.Hour; return &d }
	for _, tc := range []struct {
		asked *time.Duration
		want  time.Duration
	}{{hours(1), 0}, {hours(2), 0}, {hours(3), time.Hour}, {nil, 8760*time.Hour - 5*time.Minute - 2*time.Hour}} {
		issued, err := local(lookup(t, apiServerClient), ca)(t.Context(), asking(newRequest(t), clientUsages, tc.asked), now)
		if err != nil {
			t.Fatal(err)
		}
		if issued.ShortenedBy != tc.want {
			t.Errorf("cut by %v, want %v", issued.ShortenedBy, tc.want)
		}
	}
}

func TestRootIssuesSingleCertificate(t *testing.T) {
	root := newRoot(t)
	issued, err := sign(t, root, asking(newRequest(t), clientUsages, nil))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := pki.ParseCertificates(issued.PEM)
	if err != nil {
		t.Fatal(err)
	}
	if len(chain) != 1 || !chain[0].Equal(issued.Certificate) {
		t.Errorf("chain has %d certificates, want the new one alone", len(chain))
	}
	if err := chain[0].CheckSignatureFrom(root.Certificate()); err != nil {
		t.Error(err)
	}
}

func TestIntermediateIssuesChain(t *testing.T) {
	rootKey, caKey := ecKey(t), ecKey(t)
	root := caCertificate(t, "root", nil, rootKey, rootKey)
	intermediate := caCertificate(t, "intermediate", root, caKey, rootKey)
	ca, err := pki.NewAuthority([]*x509.Certificate{intermediate, root}, caKey)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := sign(t, ca, asking(newRequest(t), clientUsages, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := pki.EncodeCertificates(issued.Certificate, intermediate)
	if !bytes.Equal(issued.PEM, want) {
		t.Errorf("chain is\n%s\nwant the new certificate and the intermediate\n%s", issued.PEM, want)
	}
}

func caCertificate(t *testing.T, name string, issuer *x509.Certificate, key, issuerKey crypto.Signer) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	if issuer == nil {
		issuer = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
