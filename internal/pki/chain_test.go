package pki_test

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestBuildChain(t *testing.T) {
	h := newHierarchy(t, nil)
	low, middle, root := h.certs[0], h.certs[1], h.certs[2]
	key := newKey(t, pki.ECDSAP256)
	template := caTemplate("leaf")
	template.IsCA, template.KeyUsage = false, x509.KeyUsageDigitalSignature
	leaf := certificate(t, template, low, key.Public(), h.keys[0])
	stranger := newRoot(t).Certificate()
	twin := certificate(t, caTemplate("middle"), root, h.keys[1].Public(), h.keys[2]) // the same CA once more
	loner := selfSigned(t, template, key)
	two := certificate(t, template, low, key.Public(), h.keys[0])

	type certs = []*x509.Certificate
	tests := []struct {
		reason string
		in     certs
		want   certs
		ca     *x509.Certificate
		err    string
	}{
		{reason: "up to the root", in: certs{leaf, low, middle, root}, want: certs{leaf, low, middle}, ca: root},
		{reason: "in any order", in: certs{root, leaf, middle, low}, want: certs{leaf, low, middle}, ca: root},
		{reason: "each twice", in: certs{leaf, leaf, low, middle, root, low, root}, want: certs{leaf, low, middle}, ca: root},
		{reason: "up to an intermediate, which appears in both", in: certs{leaf, middle, low}, want: certs{leaf, low, middle}, ca: middle},
		{reason: "one that is not self-signed", in: certs{leaf}, want: certs{leaf}},
		{reason: "one that is a CA but not self-signed", in: certs{low}, want: certs{low}},
		{reason: "a self-signed CA appears in both", in: certs{root}, want: certs{root}, ca: root},
		{reason: "a self-signed end entity is no CA", in: certs{loner}, want: certs{loner}},
		{reason: "an intermediate below a root", in: certs{middle, root}, want: certs{middle}, ca: root},
		{reason: "nothing", err: "no certificate"},
		{reason: "a gap", in: certs{leaf, middle, root}, err: "do not form a chain"},
		{reason: "somebody else's root", in: certs{leaf, low, middle, root, stranger}, err: "do not form a chain"},
		{reason: "two leaves", in: certs{leaf, two, low, middle, root}, err: "do not form a chain"},
		{reason: "two possible issuers", in: certs{leaf, low, middle, twin, root}, err: "could both have issued"},
		{reason: "too many", in: slices.Repeat(certs{root}, 21), err: "the limit is 20"},
		{reason: "as many as can be", in: slices.Repeat(certs{root}, 20), want: certs{root}, ca: root},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			chain, err := pki.BuildChain(tc.in)
			if tc.err != "" {
				if !strings.Contains(text(err), tc.err) {
					t.Fatalf("error %q, want %q", text(err), tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(chain.Certificates, tc.want) {
				t.Errorf("chain of %d, want %d", len(chain.Certificates), len(tc.want))
			}
			if chain.CA != tc.ca {
				t.Error("another CA")
			}
		})
	}
}

// Two certificates that have issued each other are no chain, and no trap.
func TestBuildChainLoop(t *testing.T) {
	keys := []crypto.Signer{newKey(t, pki.ECDSAP256), newKey(t, pki.ECDSAP256)}
	a, b := caTemplate("a"), caTemplate("b")
	certs := []*x509.Certificate{
		certificate(t, a, b, keys[0].Public(), keys[1]),
		certificate(t, b, a, keys[1].Public(), keys[0]),
	}
	if _, err := pki.BuildChain(certs); !strings.Contains(text(err), "do not form a chain") {
		t.Errorf("error %q", text(err))
	}
	leaf := certificate(t, caTemplate("leaf"), a, newKey(t, pki.ECDSAP256).Public(), keys[0])
	if _, err := pki.BuildChain(append(certs, leaf)); !strings.Contains(text(err), "do not form a chain") {
		t.Errorf("with a leaf below them: error %q", text(err))
	}
}

// Many CAs of one name would cost a signature for each pair.
func TestBuildChainBoundsWork(t *testing.T) {
	key := newKey(t, pki.Ed25519)
	var certs []*x509.Certificate
	for i := range 10 {
		template, parent := caTemplate("a"), caTemplate("a")
		template.SubjectKeyId, template.CRLDistributionPoints = []byte{1}, []string{fmt.Sprint("http://", i)}
		parent.SubjectKeyId = []byte{1}
		certs = append(certs, certificate(t, template, parent, newKey(t, pki.Ed25519).Public(), key))
	}
	if _, err := pki.BuildChain(certs); !strings.Contains(text(err), "too many of them have the same names") {
		t.Errorf("error %q", text(err))
	}
}

// FuzzBuildChain takes certificates of two hierarchies in any number and order,
// and a root whose name and key come twice.
func FuzzBuildChain(f *testing.F) {
	h, other := newHierarchy(f, nil), newHierarchy(f, nil)
	pool := append(append([]*x509.Certificate{}, h.certs[:]...), other.certs[:]...)
	pool = append(pool, selfSigned(f, caTemplate("root"), h.keys[2]))
	for _, seed := range []string{"\x00\x01\x02", "\x02\x01\x00\x00", "\x00\x02", "\x00\x01\x02\x06", "\x03\x04"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, picks []byte) {
		var certs []*x509.Certificate
		distinct := make(map[*x509.Certificate]bool)
		for _, pick := range picks[:min(len(picks), 20)] {
			cert := pool[int(pick)%len(pool)]
			certs, distinct[cert] = append(certs, cert), true
		}
		chain, err := pki.BuildChain(certs)
		if err != nil {
			return
		}
		all := append([]*x509.Certificate{}, chain.Certificates...)
		if chain.CA != nil && chain.CA != all[len(all)-1] {
			all = append(all, chain.CA)
		}
		if len(all) != len(distinct) {
			t.Fatalf("%d certificates make a chain of %d", len(distinct), len(all))
		}
		for i, cert := range all[1:] {
			if err := all[i].CheckSignatureFrom(cert); err != nil {
				t.Errorf("certificate %d is not issued by the next one: %v", i+1, err)
			}
		}
	})
}
