package acmeorder_test

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// authority returns a certificate of a CA by another one, or by itself.
func authority(t *testing.T, name string, key crypto.Signer, by *ca) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(10000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if by == nil {
		return sign(t, template, template, key.Public(), key)
	}
	return sign(t, template, by.cert, key.Public(), by.key)
}

// A certificate has as many chains as its CAs have signatures of others.
func TestAlternates(t *testing.T) {
	oldKey, newKeyOf, middleKey := newKey(t), newKey(t), newKey(t)
	oldRoot := ca{authority(t, "old root", oldKey, nil), oldKey}
	newRoot := ca{authority(t, "new root", newKeyOf, nil), newKeyOf}
	crossed := authority(t, "new root", newKeyOf, &oldRoot)
	back := authority(t, "old root", oldKey, &newRoot)
	middle := ca{authority(t, "middle", middleKey, &newRoot), middleKey}
	otherMiddle := authority(t, "middle", middleKey, &oldRoot)
	forged := authority(t, "new root", newKey(t), &oldRoot)
	e, key := endpoint(t), newKey(t)
	o := finalized(t, e, key, dns("a.corp.example")...)
	byMiddle, _ := middle.issue(t, o, key.Public(), nil)
	byRoot, _ := newRoot.issue(t, o, key.Public(), nil)
	old := *crossed
	old.NotAfter = now
	for _, tc := range []struct {
		reason string
		answer []*x509.Certificate
		roots  []*x509.Certificate
		want   []string // the subjects of each chain, the default first
	}{
		{"one root", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert}, []string{"middle"}},
		{"no root is known", []*x509.Certificate{byMiddle, middle.cert}, nil, []string{"middle"}},
		{"two certificates of one root", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert, authority(t, "new root", newKeyOf, nil)}, []string{"middle"}},
		{"the root is cross-signed", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert, crossed, oldRoot.cert}, []string{"middle", "middle, new root"}},
		{"the old root is not known", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{crossed}, []string{"middle", "middle, new root"}},
		{"the default is the long one", []*x509.Certificate{byMiddle, middle.cert, crossed}, []*x509.Certificate{newRoot.cert, oldRoot.cert}, []string{"middle, new root", "middle"}},
		{"the CA has two certificates", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert, otherMiddle, oldRoot.cert}, []string{"middle", "middle"}},
		{"the signer is a root", []*x509.Certificate{byRoot}, []*x509.Certificate{newRoot.cert, crossed, oldRoot.cert}, []string{"new root", "new root"}},
		{"roots sign each other", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert, crossed, back, oldRoot.cert}, []string{"middle", "middle, new root"}},
		{"a CA of the same name with another key", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert, forged, oldRoot.cert}, []string{"middle"}},
		{"an expired one", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert, &old, oldRoot.cert}, []string{"middle"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			leaf, err := acmeorder.CheckLeaf(o, acmeorder.Issued{
				PEM: pki.EncodeCertificates(tc.answer...), Roots: func() []*x509.Certificate { return tc.roots }, Lifetime: 720 * time.Hour,
			}, now)
			if err != nil {
				t.Fatal(err)
			}
			valid := changed(t, o, acmeorder.Issue(o, leaf, now))
			var got []string
			for _, text := range acmeorder.Chains(valid) {
				chain, err := pki.ParseCertificates([]byte(text))
				if err != nil || !chain[0].Equal(tc.answer[0]) {
					t.Fatalf("%v: %s", err, text)
				}
				var names []string
				for i, c := range chain[1:] {
					if err := chain[i].CheckSignatureFrom(c); err != nil {
						t.Error(err)
					}
					names = append(names, c.Subject.CommonName)
				}
				got = append(got, strings.Join(names, ", "))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if gone := acmeorder.RetainOrder(valid, e.Spec().Orders, now.Add(169*time.Hour)); gone.Status == nil || gone.Status.Certificate.Chain != "" || gone.Status.Certificate.Alternates != nil {
				t.Errorf("after a week: %+v", gone.Status)
			}
		})
	}
}

// Many CAs that sign each other cost no more than a few.
func TestAlternatesAreBounded(t *testing.T) {
	key := newKey(t)
	root := ca{authority(t, "root", key, nil), key}
	roots := []*x509.Certificate{root.cert}
	for range 200 {
		other := newKey(t)
		roots = append(roots, authority(t, "root", key, &ca{authority(t, "other", other, nil), other}))
	}
	e, leafKey := endpoint(t), newKey(t)
	o := finalized(t, e, leafKey, dns("a.corp.example")...)
	cert, _ := root.issue(t, o, leafKey.Public(), nil)
	leaf, err := acmeorder.CheckLeaf(o, acmeorder.Issued{PEM: pki.EncodeCertificates(cert), Roots: func() []*x509.Certificate { return roots }, Lifetime: 720 * time.Hour}, now)
	if err != nil || len(leaf.Record().Alternates) != 4 {
		t.Errorf("%v", err)
	}
}
