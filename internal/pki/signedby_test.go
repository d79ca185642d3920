package pki_test

import (
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

func TestSignedBy(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	leaf := func(of *pki.Authority) *x509.Certificate {
		req := newRequest(t, &x509.CertificateRequest{DNSNames: []string{"a.example"}}, key)
		return sign(t, of, pki.RequestTemplate(req, pki.ClientUsages(), hour(), big.NewInt(7)))
	}
	root := newRoot(t)
	lower := func(above *pki.Authority) *pki.Authority {
		made, err := above.NewIntermediate(pki.UnrecordedSigning, "lower", newKey(t, pki.ECDSAP256), 24*time.Hour, above.Certificate().NotBefore)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	below, same := lower(root), lower(newRoot(t)) // of one name, with other keys
	certs := func(authorities ...*pki.Authority) []*x509.Certificate {
		var all []*x509.Certificate
		for _, a := range authorities {
			all = append(all, a.Certificate())
		}
		return all
	}
	chain := func(first *x509.Certificate, rest ...*x509.Certificate) []*x509.Certificate {
		return append([]*x509.Certificate{first}, rest...)
	}
	for _, tt := range []struct {
		reason             string
		chain, authorities []*x509.Certificate
		want               bool
	}{
		{"by a root", chain(leaf(root)), certs(root), true},
		{"by an intermediate CA that is trusted itself", chain(leaf(below)), certs(below), true},
		{"by way of an intermediate CA", chain(leaf(below), certs(below)...), certs(root), true},
		{"by way of one among others", chain(leaf(below), certs(same, below)...), certs(same, root), true},
		{"without the intermediate CA", chain(leaf(below)), certs(root), false},
		{"by another CA of the name", chain(leaf(same)), certs(below, root), false},
		{"by way of a certificate that is no CA's", chain(leaf(root), leaf(root)), nil, false},
		{"by nobody who is known", chain(leaf(root), certs(root)...), nil, false},
		{"no certificate", nil, certs(root), false},
	} {
		if got := pki.SignedBy(tt.chain, tt.authorities); got != tt.want {
			t.Errorf("%s: %v", tt.reason, got)
		}
	}
}
