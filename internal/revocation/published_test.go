package revocation

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// testCA is a CA that signs lists.
type testCA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newCA(t *testing.T, name string, above *testCA, begin, end time.Time) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end, SubjectKeyId: []byte(name),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if above == nil {
		above = &testCA{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, above.cert, key.Public(), above.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &testCA{cert, key}
}

// object returns the description of the CA's list with the number 7.
func (c *testCA) object(signer string, above ...*testCA) *inventoryv1alpha1.RevocationList {
	chain := []*x509.Certificate{c.cert}
	for _, ca := range above {
		chain = append(chain, ca.cert)
	}
	list := &inventoryv1alpha1.RevocationList{
		ObjectMeta: metav1.ObjectMeta{Name: ListID(c.cert)}, Subject: c.cert.Subject.String(), CACertificates: string(pki.EncodeCertificates(chain...)), Number: 7,
	}
	if signer != "" {
		list.SignerNames = []string{signer}
	}
	return list
}

func (c *testCA) list(t *testing.T, number int64, begin, end time.Time) []byte {
	t.Helper()
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: begin, NextUpdate: end}, c.cert, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestOfSigner(t *testing.T) {
	year := func(n int) time.Time { return noon.AddDate(n, 0, 0) }
	root, otherRoot := newCA(t, "root", nil, year(-9), year(9)), newCA(t, "other root", nil, year(-9), year(9))
	former, present, next := newCA(t, "former", root, year(-3), year(1)), newCA(t, "present", root, year(-2), year(2)), newCA(t, "next", otherRoot, year(-1), year(3))
	ended, elsewhere := newCA(t, "ended", root, year(-3), year(-1)), newCA(t, "elsewhere", nil, year(-1), year(3))
	shard := present.object("example.com/s", root)
	shard.Name += "-16-3"
	damaged := elsewhere.object("example.com/t")
	damaged.CACertificates = "damaged"
	all := []*inventoryv1alpha1.RevocationList{
		former.object("example.com/s", root), next.object("example.com/s"), root.object(""), shard, present.object("example.com/s", root), ended.object("example.com/s", root),
		damaged, elsewhere.object("example.com/u"),
	}
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	both := roots.Clone()
	both.AddCert(otherRoot.cert)
	type names struct{ Own, Above, Missing, Untrusted []string }
	for _, tt := range []struct {
		reason string
		roots  *x509.CertPool
		want   names
	}{
		{"as published", nil, names{Own: []string{"CN=next", "CN=present", "CN=former"}, Above: []string{"CN=root"}}},
		{"a root that the list does not name", both, names{Own: []string{"CN=next", "CN=present", "CN=former"}, Above: []string{"CN=root"}, Missing: []string{"CN=other root"}}},
		{"another root", roots, names{Own: []string{"CN=present", "CN=former"}, Above: []string{"CN=root"}, Untrusted: []string{"CN=next"}}},
		{"no root", x509.NewCertPool(), names{Untrusted: []string{"CN=next", "CN=present", "CN=former"}}},
	} {
		for range len(all) {
			all = append(all[1:], all[0]) // in every order
			found, err := OfSigner(all, "example.com/s", tt.roots, noon)
			if err != nil {
				t.Fatal(err)
			}
			got := names{Missing: found.Missing, Untrusted: found.Untrusted}
			for _, list := range found.Own {
				got.Own = append(got.Own, list.Subject)
			}
			for _, list := range found.Above {
				got.Above = append(got.Above, list.Subject)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		}
	}
	if _, err := OfSigner(all, "example.com/t", nil, noon); err == nil || !strings.Contains(err.Error(), "reading the CA certificates of the RevocationList "+damaged.Name) {
		t.Errorf("a damaged list: %v", err)
	}
}

func TestCheck(t *testing.T) {
	ca, week := newCA(t, "ca", nil, noon.AddDate(-1, 0, 0), noon.AddDate(1, 0, 0)), noon.AddDate(0, 0, 7)
	stranger := newCA(t, "ca", nil, noon.AddDate(-1, 0, 0), noon.AddDate(1, 0, 0))
	renamed := &testCA{newCA(t, "renamed", nil, noon.AddDate(-1, 0, 0), noon.AddDate(1, 0, 0)).cert, ca.key}
	renamed.cert.PublicKey = ca.key.Public()
	published := Published{ca.object("example.com/s"), []*x509.Certificate{ca.cert}}
	for _, tt := range []struct {
		reason, want string
		der          []byte
	}{
		{"good", "", ca.list(t, 7, noon.Add(-Backdate), week)},
		{"a later one", "", ca.list(t, 8, noon, week)},
		{"a clock that is behind", "", ca.list(t, 7, noon.Add(Backdate), week)},
		{"bytes", "malformed", []byte("bytes")},
		{"another key", "verification failure", stranger.list(t, 7, noon, week)},
		{"another name", "its issuer is CN=renamed", renamed.list(t, 7, noon, week)},
		{"an earlier one", "the server has not sent the list with the number 7 yet", ca.list(t, 6, noon, week)},
		{"from the future", "it begins at 2026-11-29T12:05:01Z, after the time of this machine", ca.list(t, 7, noon.Add(Backdate+time.Second), week)},
		{"ended", "it ended at 2026-11-29T12:00:00Z", ca.list(t, 7, noon.Add(-time.Hour), noon)},
	} {
		list, err := published.Check(tt.der, noon)
		if good := tt.want == ""; good != (err == nil) || good && list.Number.Int64() < 7 {
			t.Errorf("%s: %v", tt.reason, err)
		}
		if err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "the list of CN=ca: ")) {
			t.Errorf("%s: %v, want %s", tt.reason, err, tt.want)
		}
	}
}

func TestListFiles(t *testing.T) {
	ca := newCA(t, "ca", nil, noon.AddDate(-1, 0, 0), noon.AddDate(1, 0, 0))
	first, second := ca.list(t, 1, noon, noon.AddDate(0, 0, 7)), ca.list(t, 2, noon, noon.AddDate(0, 0, 7))
	text := slices.Concat(pki.EncodeCertificates(ca.cert), EncodeLists(first, second))
	for _, tt := range []struct {
		reason string
		data   []byte
		want   []int64
	}{{"PEM, among others", text, []int64{1, 2}}, {"DER", second, []int64{2}}, {"neither", []byte("text"), nil}} {
		lists, err := ParseLists(tt.data)
		var got []int64
		for _, list := range lists {
			got = append(got, list.Number.Int64())
		}
		if (err == nil) != (tt.want != nil) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v", tt.reason, got, err)
		}
	}
}
