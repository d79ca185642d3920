package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func newCATemplate(t testing.TB) *x509.Certificate {
	template := leafTemplate(t)
	subject("intermediate")(template)
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign
	template.ExtKeyUsage = nil
	return template
}

func TestLintCA(t *testing.T) {
	tests := []struct {
		reason string
		parent func(certs [3]*x509.Certificate)
		change func(*x509.Certificate)
		want   string // part of the error; empty if it is fine
	}{
		{reason: "a plain CA"},
		{reason: "name constraints", change: func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} }},
		{reason: "not a CA", change: func(c *x509.Certificate) { c.IsCA = false }, want: "must set CA in its basic constraints"},
		{reason: "cannot sign", change: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }, want: "needs the usage cert sign"},
		{
			reason: "no usages at all",
			change: func(c *x509.Certificate) { c.KeyUsage = 0 },
			want:   "needs the usage cert sign",
		},
		{reason: "nameless", change: nameless, want: "would have no name"},
		{reason: "pod identity", change: withPod, want: "has no place in a CA certificate"},
		{
			reason: "the issuer issues to end entities alone",
			parent: func(c [3]*x509.Certificate) { c[0].MaxPathLenZero = true },
			want:   "path length, or the path length of a CA above it, allows no further one",
		},
		{
			reason: "the root's path length is used up",
			parent: func(c [3]*x509.Certificate) { c[2].MaxPathLen = 2 },
			want:   "path length, or the path length of a CA above it, allows no further one",
		},
		{
			reason: "the root's path length is used up, whatever the issuer's own",
			parent: func(c [3]*x509.Certificate) { c[0].MaxPathLen, c[2].MaxPathLen = 5, 2 },
			want:   "path length, or the path length of a CA above it, allows no further one",
		},
		{
			reason: "the issuer's usages do not have one that nobody knows",
			parent: func(c [3]*x509.Certificate) { c[0].ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
			change: func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3}} },
			want:   "not allowed to issue for one of the extended usages",
		},
		{
			reason: "the issuer's usages have one that nobody knows",
			parent: func(c [3]*x509.Certificate) { c[0].UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3}} },
			change: func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3}} },
		},
		{reason: "the root's path length has room", parent: func(c [3]*x509.Certificate) { c[2].MaxPathLen = 3 }},
		{
			reason: "a name outside of the issuer's constraints",
			parent: func(c [3]*x509.Certificate) { c[0].PermittedDNSDomains = []string{"example.org"} },
			change: func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} },
			want:   "verifying against the CA",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			h := newHierarchy(t, tc.parent)
			parent, err := pki.NewAuthority(h.certs[:], h.keys[0])
			if err != nil {
				t.Fatal(err)
			}
			template := newCATemplate(t)
			if tc.change != nil {
				tc.change(template)
			}
			linted, err := parent.LintCA(template, pki.Policy{})
			if got := text(err); (tc.want == "") != (err == nil) || !strings.Contains(got, tc.want) {
				t.Fatalf("error %q, want %q", got, tc.want)
			}
			if err == nil {
				assertSigns(t, linted)
			}
		})
	}
}

// A certificate that is valid as a CA is not valid as an end entity, and is
// refused if the caller mixes them up.
func TestLintRefusesCA(t *testing.T) {
	_, err := newRoot(t).Lint(newCATemplate(t), pki.Policy{})
	if !strings.Contains(text(err), "an end-entity certificate must not be a CA") {
		t.Errorf("error %q", text(err))
	}
}

func TestLintSelfSigned(t *testing.T) {
	tests := []struct {
		reason string
		kind   pki.KeyType
		change func(*x509.Certificate)
		want   string // part of the error; empty if it is fine
	}{
		{reason: "an end entity"},
		{reason: "an end entity without a subject", change: func(c *x509.Certificate) { nameless(c); c.DNSNames = []string{"example.com"} }},
		{reason: "a CA", change: asRoot},
		{reason: "an RSA key", kind: pki.RSA2048, change: func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA512WithRSA }},
		{reason: "an Ed25519 key", kind: pki.Ed25519},
		{reason: "no name at all", change: nameless, want: "would have no name"},
		{reason: "a CA without a subject", change: func(c *x509.Certificate) { asRoot(c); nameless(c) }, want: "would have no name"},
		{reason: "a CA without a subject that has other names", change: func(c *x509.Certificate) { asRoot(c); nameless(c); c.DNSNames = []string{"example.com"} }},
		{reason: "over before it begins", change: validity(0, 0), want: "would end before it begins"},
		{reason: "signs, but is no CA", change: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign }, want: "needs a CA certificate"},
		{reason: "another key's algorithm", change: func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA256WithRSA }, want: "encoding"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if tc.kind == "" {
				tc.kind = pki.ECDSAP256
			}
			template := leafTemplate(t)
			if tc.change != nil {
				tc.change(template)
			}
			linted, err := pki.LintSelfSigned(template, newKey(t, tc.kind), pki.Policy{MinRSABits: 2048})
			if got := text(err); (tc.want == "") != (err == nil) || !strings.Contains(got, tc.want) {
				t.Fatalf("error %q, want %q", got, tc.want)
			}
			if err != nil {
				return
			}
			cert, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
			if err != nil {
				t.Fatal(err)
			}
			if len(cert.SubjectKeyId) == 0 {
				t.Error("has no subject key identifier")
			}
		})
	}
}

func withPod(c *x509.Certificate) {
	extension, err := pki.PodIdentity{}.Extension()
	if err != nil {
		panic(err)
	}
	c.ExtraExtensions = []pkix.Extension{extension}
}

func asRoot(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign }

// The key identifier of a CA that keeps its key is kept, however it was derived:
// certificates that it has issued name it. That of an end entity is not for the
// template to choose.
func TestKeyIDIsKept(t *testing.T) {
	former := newCA(t, "kept") // its key identifier is no hash
	issued := certificate(t, caTemplate("below"), former.by(t, former), newKey(t, pki.ECDSAP256).Public(), former.key)
	linted, err := pki.LintSelfSigned(former.template, former.key, pki.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
	if err != nil || string(renewed.SubjectKeyId) != "kept" || string(issued.AuthorityKeyId) != string(renewed.SubjectKeyId) {
		t.Errorf("renewed root: %x, %v", renewed.SubjectKeyId, err)
	}
	parent := newRoot(t)
	template := *caTemplate("low")
	template.PublicKey, template.SubjectKeyId, template.NotBefore = former.key.Public(), []byte("kept"), now
	template.NotAfter = now.Add(day)
	if linted, err = parent.LintCA(&template, pki.Policy{}); err != nil {
		t.Fatal(err)
	}
	if renewed, err = linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{}); err != nil || string(renewed.SubjectKeyId) != "kept" {
		t.Errorf("renewed intermediate: %x, %v", renewed.SubjectKeyId, err)
	}
	leaf := leafTemplate(t)
	leaf.SubjectKeyId = []byte("kept")
	if got := sign(t, parent, leaf); string(got.SubjectKeyId) == "kept" {
		t.Error("an end entity has chosen its key identifier")
	}
}
