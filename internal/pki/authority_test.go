package pki_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func TestNewAuthority(t *testing.T) {
	tests := []struct {
		reason string
		change func(templates [3]*x509.Certificate)
		chain  func(hierarchy) []*x509.Certificate
		want   string // part of the error
	}{
		{reason: "whole chain", chain: pick(0, 1, 2)},
		{reason: "chain without the root", chain: pick(0, 1)},
		{reason: "intermediate alone", chain: pick(0)},
		{
			reason: "no key usage is no restriction",
			change: func(c [3]*x509.Certificate) { c[0].KeyUsage = 0 },
			chain:  pick(0, 1, 2),
		},
		{
			reason: "expiry is a matter of signing",
			change: func(c [3]*x509.Certificate) { c[0].NotAfter = now.Add(-1) },
			chain:  pick(0, 1, 2),
		},
		{
			reason: "path lengths that are just enough",
			change: func(c [3]*x509.Certificate) { c[0].MaxPathLenZero, c[1].MaxPathLen, c[2].MaxPathLen = true, 1, 2 },
			chain:  pick(0, 1, 2),
		},

		{reason: "nothing", chain: pick(), want: "no CA certificate"},
		{reason: "key of another certificate", chain: pick(1, 2), want: `private key does not belong to the CA certificate of "CN=middle"`},
		{reason: "another order of the issuers", chain: pick(0, 2, 1)},
		{reason: "a certificate twice", chain: pick(0, 1, 2, 2)},
		{reason: "a gap", chain: pick(0, 2), want: `certificate 1 ("CN=low", serial 1): is issued by "CN=middle", but the certificate that follows it is "CN=root"`},
		{
			reason: "something after the root",
			chain:  func(h hierarchy) []*x509.Certificate { return append(pick(0, 1, 2)(h), newRoot(t).Certificate()) },
			want:   "is a root, so nothing may follow it",
		},
		{
			reason: "not a CA",
			change: func(c [3]*x509.Certificate) { c[0].IsCA = false },
			chain:  pick(0),
			want:   "is not a CA certificate",
		},
		{
			reason: "no basic constraints",
			change: func(c [3]*x509.Certificate) { c[0].BasicConstraintsValid = false },
			chain:  pick(0),
			want:   "is not a CA certificate",
		},
		{
			reason: "may not sign certificates",
			change: func(c [3]*x509.Certificate) { c[0].KeyUsage = x509.KeyUsageDigitalSignature },
			chain:  pick(0),
			want:   "must not sign certificates",
		},
		{
			reason: "a CA above it allows none below",
			change: func(c [3]*x509.Certificate) { c[1].MaxPathLenZero = true },
			chain:  pick(0, 1, 2),
			want:   "allows 0 CAs below itself, but the chain has 1",
		},
		{
			reason: "no name",
			change: func(c [3]*x509.Certificate) { c[0].Subject = pkix.Name{} },
			chain:  pick(0),
			want:   "has no subject",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			h := newHierarchy(t, tc.change)
			_, err := pki.NewAuthority(tc.chain(h), h.keys[0])
			if got := text(err); (tc.want == "") != (err == nil) || !strings.Contains(got, tc.want) {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}

// pick returns the certificates of a hierarchy with these numbers.
func pick(numbers ...int) func(hierarchy) []*x509.Certificate {
	return func(h hierarchy) []*x509.Certificate {
		var chain []*x509.Certificate
		for _, i := range numbers {
			chain = append(chain, h.certs[i])
		}
		return chain
	}
}

func TestNewAuthorityProvesSignatures(t *testing.T) {
	h := newHierarchy(t, nil)
	impostor := selfSigned(t, caTemplate("middle"), newKey(t, pki.ECDSAP256))
	_, err := pki.NewAuthority([]*x509.Certificate{h.certs[0], impostor}, h.keys[0])
	if !strings.Contains(text(err), "verifying with the certificate that follows it") {
		t.Errorf("a CA of the right name that did not sign was accepted: %v", err)
	}
}

func TestChain(t *testing.T) {
	tests := []struct {
		reason string
		chain  func(hierarchy) []*x509.Certificate
		want   []int // certificates of the hierarchy after the leaf
		trust  int   // the one that a verifier has to have
		anchor int   // the highest that is known
	}{
		{reason: "the root is not sent", chain: pick(0, 1, 2), want: []int{0, 1}, trust: 2, anchor: 2},
		{reason: "all that is known is sent", chain: pick(0, 1), want: []int{0, 1}, trust: 2, anchor: 1},
		{reason: "the issuing CA is sent unless it is a root", chain: pick(0), want: []int{0}, trust: 1},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			h := newHierarchy(t, nil)
			ca, err := pki.NewAuthority(tc.chain(h), h.keys[0])
			if err != nil {
				t.Fatal(err)
			}
			leaf := sign(t, ca, leafTemplate(t))
			want := append([]*x509.Certificate{leaf}, pick(tc.want...)(h)...)
			if diff := cmp.Diff(subjects(want), subjects(ca.Chain(leaf))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			assertTrusted(t, ca.Chain(leaf), h.certs[tc.trust])
			if ca.Anchor() != h.certs[tc.anchor] {
				t.Errorf("anchor is %s", ca.Anchor().Subject)
			}
			assertTrusted(t, ca.Chain(leaf), ca.Anchor())
		})
	}
}

func TestChainOfRootIsLeafAlone(t *testing.T) {
	root := newRoot(t)
	leaf := sign(t, root, leafTemplate(t))
	if got := root.Chain(leaf); !slices.Equal(got, []*x509.Certificate{leaf}) {
		t.Errorf("chain is %v, want the leaf alone", subjects(got))
	}
	assertTrusted(t, []*x509.Certificate{leaf}, root.Certificate())
}

func TestChainOfCrossSignedRoot(t *testing.T) {
	// The new CA has the old one's name and is signed by its key: it is
	// self-issued, but not a root.
	oldKey, newCAKey := newKey(t, pki.ECDSAP256), newKey(t, pki.ECDSAP256)
	oldRoot := selfSigned(t, caTemplate("rollover"), oldKey)
	cross := certificate(t, caTemplate("rollover"), oldRoot, newCAKey.Public(), oldKey)
	ca, err := pki.NewAuthority([]*x509.Certificate{cross, oldRoot}, newCAKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf := sign(t, ca, leafTemplate(t))
	if got := ca.Chain(leaf); len(got) != 2 || got[1] != cross {
		t.Errorf("chain is %v, want the leaf and the cross-signed CA", subjects(got))
	}
}

func leafTemplate(t testing.TB) *x509.Certificate {
	t.Helper()
	serial, err := pki.NewSerial(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	req := newRequest(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "leaf"}}, newKey(t, pki.ECDSAP256))
	return pki.RequestTemplate(req, pki.ClientUsages(), hour(), serial)
}

func subjects(certs []*x509.Certificate) []string {
	var names []string
	for _, cert := range certs {
		names = append(names, cert.Subject.String())
	}
	return names
}

func assertTrusted(t testing.TB, chain []*x509.Certificate, root *x509.Certificate) {
	t.Helper()
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(root)
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   chain[0].NotBefore,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		t.Errorf("verifying %s: %v", chain[0].Subject, err)
	}
}
