package pki_test

import (
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// TestAcceptChain: what is demanded of certificates that others have signed; what
// Wanted leaves to the signer is not looked at.
func TestAcceptChain(t *testing.T) {
	root := newRoot(t)
	key := newKey(t, pki.ECDSAP256)
	req := newRequest(t, &x509.CertificateRequest{DNSNames: []string{"a.example"}}, key)
	usages := pki.ClientUsages()
	leaf := sign(t, root, pki.RequestTemplate(req, usages, hour(), big.NewInt(7)))
	lower, err := root.NewIntermediate(pki.UnrecordedSigning, "lower", key, 24*time.Hour, leaf.NotBefore)
	if err != nil {
		t.Fatal(err)
	}
	now, day := leaf.NotBefore, 24*time.Hour
	want := pki.Wanted{Key: key.Public(), Usages: &usages, Names: req, Life: &day}
	tests := []struct {
		reason string
		certs  []*x509.Certificate
		change func(*pki.Wanted)
		at     time.Duration
		err    string
	}{
		{reason: "what was asked for", certs: []*x509.Certificate{leaf, root.Certificate()}},
		{reason: "in another order", certs: []*x509.Certificate{root.Certificate(), leaf}},
		{reason: "without the root", certs: []*x509.Certificate{leaf}},
		{reason: "another key", certs: []*x509.Certificate{leaf}, change: func(w *pki.Wanted) { w.Key = newKey(t, pki.ECDSAP256).Public() },
			err: pki.ErrOtherKey.Error()},
		{reason: "a CA", certs: []*x509.Certificate{lower.Certificate(), root.Certificate()}, err: pki.ErrUnwantedCA.Error()},
		{reason: "a CA that was asked for", certs: []*x509.Certificate{lower.Certificate(), root.Certificate()},
			change: func(w *pki.Wanted) { *w = pki.Wanted{Key: key.Public(), CA: true} }},
		{reason: "over", certs: []*x509.Certificate{leaf}, at: 2 * time.Hour, err: "it has expired"},
		{reason: "over, and left to the signer", certs: []*x509.Certificate{leaf}, at: 2 * time.Hour, change: func(w *pki.Wanted) { w.Life = nil }},
		{reason: "too long a life", certs: []*x509.Certificate{leaf}, change: func(w *pki.Wanted) { w.Life = new(time.Minute) }, err: "longer than 1m0s"},
		{reason: "no life at all", certs: []*x509.Certificate{leaf}, change: func(w *pki.Wanted) { w.Life = new(time.Duration) }, err: "longer than 0s"},
		{reason: "another usage", certs: []*x509.Certificate{leaf}, change: func(w *pki.Wanted) { w.Usages = new(pki.ServerUsages()) }, err: "usage"},
		{reason: "other names", certs: []*x509.Certificate{leaf}, change: func(w *pki.Wanted) { w.Names = &x509.CertificateRequest{} }, err: "alternative names"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := want
			if tc.change != nil {
				tc.change(&w)
			}
			chain, err := pki.AcceptChain(tc.certs, w, now.Add(tc.at))
			if got := text(err); (got == "") != (tc.err == "") || !strings.Contains(got, tc.err) {
				t.Fatalf("error %q, want %q", got, tc.err)
			}
			if err == nil && chain.Certificates[0].SerialNumber == nil {
				t.Error("no certificate")
			}
		})
	}
	if _, err := pki.AcceptPath([]*x509.Certificate{root.Certificate(), leaf}, want, now); !errors.Is(err, pki.ErrOtherKey) {
		t.Errorf("the CA first: %v", err)
	}
}
