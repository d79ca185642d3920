package truststore_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/truststore"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newCA(t testing.TB, name string, lifetime time.Duration) (*x509.Certificate, string) {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, lifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate(), string(pki.EncodeCertificates(root.Certificate()))
}

func TestPEM(t *testing.T) {
	var certs []*x509.Certificate
	set := truststore.Set{}
	for _, name := range []string{"a", "b", "c", "d"} {
		cert, text := newCA(t, name, time.Hour)
		certs = append(certs, cert)
		if err := set.AddPEM([]byte("# " + name + "\n" + text + "\ntext between\n" + text)); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(certs, func(a, b *x509.Certificate) int {
		x, y := sha256.Sum256(a.Raw), sha256.Sum256(b.Raw)
		return bytes.Compare(x[:], y[:])
	})
	want := strings.TrimSuffix(string(pki.EncodeCertificates(certs...)), "\n")
	if got := string(set.PEM()); got != want || set.Len() != len(certs) {
		t.Errorf("got %d certificates:\n%s\nwant\n%s", set.Len(), got, want)
	}
	if !slices.EqualFunc(set.Certificates(), certs, (*x509.Certificate).Equal) {
		t.Error("the certificates are not sorted by their digests")
	}
}

func TestFilter(t *testing.T) {
	_, old := newCA(t, "old", time.Hour)
	fresh, text := newCA(t, "fresh", 3*time.Hour)
	later := now.Add(2 * time.Hour)
	set := truststore.Set{Keep: truststore.Filter{Expired: true, NonCA: true}.At(later)}
	if err := set.AddPEM([]byte(old + text)); err != nil {
		t.Fatal(err)
	}
	if got := set.Certificates(); len(got) != 1 || !got[0].Equal(fresh) {
		t.Errorf("kept %d certificates", len(got))
	}
	leaf := *fresh
	leaf.IsCA = false
	for _, test := range []struct {
		filter truststore.Filter
		keeps  bool
	}{{truststore.Filter{}, true}, {truststore.Filter{Expired: true}, true}, {truststore.Filter{NonCA: true}, false}} {
		if got := test.filter.At(later)(&leaf); got != test.keeps {
			t.Errorf("%+v keeps a certificate that is not of a CA: %t", test.filter, got)
		}
	}
}

// A private key never gets into a set, nor into an error.
func TestRefusedPEM(t *testing.T) {
	cert, text := newCA(t, "root", time.Hour)
	const secret = "c2VjcmV0IHNlY3JldCBzZWNyZXQ="
	block := func(label string) string {
		return "-----BEGIN " + label + "-----\n" + secret + "\n-----END " + label + "-----\n"
	}
	header := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"Note": secret}, Bytes: cert.Raw}))
	for _, test := range []struct{ data, want string }{
		{text + block("PRIVATE KEY"), "invalid PEM block in bundle: only CERTIFICATE blocks are permitted but found 'PRIVATE KEY'"},
		{block("c2VjcmV0IHNlY3JldCBzZWNyZXQ="), "invalid PEM block in bundle: only CERTIFICATE blocks are permitted but found '(unusual label)'"},
		{header, "invalid PEM block in bundle; blocks are not permitted to have PEM headers"},
		{block("CERTIFICATE"), "invalid PEM block in bundle; invalid PEM certificate: x509: malformed certificate"},
	} {
		err := (&truststore.Set{}).AddPEM([]byte(test.data))
		if err == nil || err.Error() != test.want || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}
