package pki_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"fmt"
	"math/big"
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
		{reason: "an issuer with two certificates, of which the first is taken", in: certs{leaf, low, middle, twin, root}, want: certs{leaf, low, middle}, ca: root},
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
	// CAs that trust each other are no trap either: the path ends before it repeats.
	leaf := certificate(t, caTemplate("leaf"), a, newKey(t, pki.ECDSAP256).Public(), keys[0])
	chain, err := pki.BuildChain(append(certs, leaf))
	if err != nil || !slices.Equal(chain.Certificates, []*x509.Certificate{leaf, certs[0], certs[1]}) || chain.CA != certs[1] {
		t.Errorf("with a leaf below them: %v, %v", chain, err)
	}
}

// ca is a key with a template, and signs others.
type ca struct {
	template *x509.Certificate
	key      crypto.Signer
}

func newCA(t testing.TB, name string) ca {
	template := caTemplate(name)
	template.SubjectKeyId = []byte(name)
	return ca{template, newKey(t, pki.ECDSAP256)}
}

// by returns a certificate of the CA that another one has signed, or the CA itself.
func (c ca) by(t testing.TB, issuer ca, change ...func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := *c.template
	for _, f := range change {
		f(&template)
	}
	return certificate(t, &template, issuer.template, c.key.Public(), issuer.key)
}

// CAs that are being replaced have several certificates: a path is found among
// them, wherever chains enter.
func TestChainsOfCAsWithSeveralCertificates(t *testing.T) {
	issuing, a, b := newCA(t, "issuing"), newCA(t, "a"), newCA(t, "b")
	expired := func(c *x509.Certificate) { c.NotAfter = now.Add(-day) }
	byA, byB, rootA, rootB, aByB := issuing.by(t, a), issuing.by(t, b), a.by(t, a), b.by(t, b), a.by(t, b)
	earlier := issuing.by(t, a, func(c *x509.Certificate) { c.NotAfter = now.Add(day) })
	later := issuing.by(t, a, func(c *x509.Certificate) { c.SerialNumber, c.NotAfter = big.NewInt(2), now.Add(500*day) })
	old := a.by(t, b, expired)
	otherID := issuing.by(t, b, func(c *x509.Certificate) { c.SubjectKeyId = []byte("other") })
	narrow := b.by(t, b, func(c *x509.Certificate) { c.MaxPathLenZero = true })
	type certs = []*x509.Certificate
	for _, tc := range []struct {
		reason   string
		in, want certs // without the root
		ca       *x509.Certificate
	}{
		{reason: "two roots have signed it", in: certs{byA, byB}, want: certs{byA}},
		{reason: "the same with the second root", in: certs{byA, byB, rootB}, want: certs{byB}, ca: rootB},
		{reason: "the same with both roots", in: certs{byA, byB, rootA, rootB}, want: certs{byA}, ca: rootA},
		{reason: "the later one of a renewed CA", in: certs{earlier, later, rootA}, want: certs{later}, ca: rootA},
		{reason: "the later one of a renewed CA without a root", in: certs{earlier, later}, want: certs{later}},
		{reason: "a root by itself and by another one", in: certs{byA, rootA, aByB, rootB}, want: certs{byA}, ca: rootA},
		{reason: "a root only by another one", in: certs{byA, aByB, rootB}, want: certs{byA, aByB}, ca: rootB},
		{reason: "not by way of an expired one", in: certs{byA, byB, rootB, old, rootA}, want: certs{byA}, ca: rootA},
		{reason: "with other key identifiers", in: certs{byA, otherID, rootA, rootB}, want: certs{byA}, ca: rootA},
		{reason: "not by way of a path length that forbids it", in: certs{byA, aByB, narrow, rootA}, want: certs{byA}, ca: rootA},
		{reason: "roots that have signed each other", in: certs{byA, aByB, b.by(t, a)}, want: certs{byA, aByB}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			chain, err := pki.BuildChain(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if tc.ca != nil && chain.CA != tc.ca {
				t.Errorf("anchor %v", chain.CA)
			}
			if got := chain.Certificates; len(got) < len(tc.want) || !slices.Equal(got[:len(tc.want)], tc.want) {
				t.Errorf("chain of %d", len(got))
			}
			authority, err := pki.NewAuthority(tc.in, issuing.key)
			if err != nil {
				t.Fatalf("as an authority: %v", err)
			}
			leaf := sign(t, authority, leafTemplate(t))
			assertTrusted(t, authority.Chain(leaf), authority.Anchor())
			answer := append(certs{leaf}, tc.in...)
			for name, accept := range map[string]func() (certs, error){
				"path": func() (certs, error) { return pki.AcceptPath(answer, pki.Wanted{Key: leaf.PublicKey}, now) },
				"chain": func() (certs, error) {
					chain, err := pki.AcceptChain(answer, pki.Wanted{Key: leaf.PublicKey}, now)
					if err != nil {
						return nil, err
					}
					return chain.Certificates, nil
				},
			} {
				if got, err := accept(); err != nil || got[0] != leaf || len(got) < 2 {
					t.Errorf("as the %s of an answer: %d, %v", name, len(got), err)
				}
			}
		})
	}
}

// A signature that cannot be verified is the reason, not the chain.
func TestBuildChainNamesSignatures(t *testing.T) {
	root, other, issuing := newCA(t, "root"), newCA(t, "other"), newCA(t, "issuing")
	rsaRoot := ca{root.template, newKey(t, pki.RSA2048)}
	good := issuing.by(t, rsaRoot)
	resigned := func(name string, change func([]byte) []byte) *x509.Certificate {
		cert, err := x509.ParseCertificate(change(bytes.Clone(good.Raw)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return cert
	}
	algorithm := func(last byte) func([]byte) []byte {
		return func(der []byte) []byte {
			return bytes.ReplaceAll(der, []byte{0x86, 0xf7, 0x0d, 1, 1, 11}, []byte{0x86, 0xf7, 0x0d, 1, 1, last})
		}
	}
	for name, tc := range map[string]struct {
		cert, root *x509.Certificate
		want       string
	}{
		"SHA-1":            {resigned("SHA-1", algorithm(5)), rsaRoot.by(t, rsaRoot), "\"CN=issuing\", serial 1 is signed with SHA1-RSA, which is not accepted"},
		"MD5":              {resigned("MD5", algorithm(4)), rsaRoot.by(t, rsaRoot), "is signed with MD5-RSA, which is not accepted"},
		"not known":        {resigned("not known", algorithm(99)), rsaRoot.by(t, rsaRoot), "is signed with an algorithm that is not supported"},
		"another key":      {good, root.by(t, root), "was not signed with the key of \"CN=root\""},
		"not that of a CA": {issuing.by(t, root), root.by(t, root, func(c *x509.Certificate) { c.IsCA = false }), "is not a CA certificate"},
	} {
		if _, err := pki.BuildChain([]*x509.Certificate{tc.cert, tc.root}); !strings.Contains(text(err), tc.want) {
			t.Errorf("%s: error %q, want %q", name, text(err), tc.want)
		}
	}
	// Another path counts.
	byOther := issuing.by(t, other)
	chain, err := pki.BuildChain([]*x509.Certificate{resigned("SHA-1", algorithm(5)), byOther, rsaRoot.by(t, rsaRoot), other.by(t, other)})
	if err == nil || !strings.Contains(err.Error(), "SHA1-RSA") {
		t.Errorf("a root that only the certificate with SHA-1 leads to: %v, %v", chain, err)
	}
	chain, err = pki.BuildChain([]*x509.Certificate{resigned("SHA-1", algorithm(5)), byOther, other.by(t, other)})
	if err != nil || chain.Certificates[0] != byOther {
		t.Errorf("signed by two, once with SHA-1: %v, %v", chain, err)
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
		for cert := range distinct {
			if !slices.ContainsFunc(all, func(c *x509.Certificate) bool { return c == cert || pki.IsTwin(c, cert) }) {
				t.Fatalf("%s is left out", cert.Subject)
			}
		}
		for i, cert := range all[1:] {
			if err := all[i].CheckSignatureFrom(cert); err != nil {
				t.Errorf("certificate %d is not issued by the next one: %v", i+1, err)
			}
		}
	})
}
