package injection

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// newCA returns a CA that has been valid for this long, and is valid for two hours.
func newCA(t *testing.T, name string, age time.Duration) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, 2*time.Hour, now.Add(-age))
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate()
}

func names(certs []*x509.Certificate) string {
	var all []string
	for _, cert := range certs {
		all = append(all, cert.Subject.CommonName)
	}
	return strings.Join(all, " ")
}

func TestMerge(t *testing.T) {
	a, b, old := newCA(t, "a", 0), newCA(t, "b", 0), newCA(t, "old", 3*time.Hour)
	certs := func(all ...*x509.Certificate) []*x509.Certificate { return all }
	text := func(all ...*x509.Certificate) string { return string(pki.EncodeCertificates(all...)) }
	for _, tt := range []struct {
		reason, stored string
		source         []*x509.Certificate
		want           string
	}{
		{"nothing is stored", "", certs(a), "a"},
		{"another CA is stored", text(a), certs(b), "a b"},
		{"the source is stored", text(a, b), certs(b), "unchanged"},
		{"the source is stored with comments", "# our CA\n" + text(a), certs(a), "unchanged"},
		{"an expired one is stored", text(old, a), certs(a), "a"},
		{"the source is stored twice", text(a, a), certs(a), "a"},
		{"the source has one twice", "", certs(a, a), "a"},
		{"the source has an expired one", "", certs(old, a), "a"},
		{"the stored one cannot be read", "-----BEGIN CERTIFICATE-----\n", certs(a), "a"},
		{"something else is stored", "text", certs(a), "a"},
	} {
		bundle, changed, trimmed := Merge([]byte(tt.stored), tt.source, now)
		got := "unchanged"
		if after, err := pki.ParseBundle(bundle); err != nil {
			t.Errorf("%s: %v", tt.reason, err)
		} else if changed {
			got = names(after)
		} else if string(bundle) != tt.stored {
			t.Errorf("%s: the text has changed", tt.reason)
		}
		if got != tt.want || trimmed != 0 {
			t.Errorf("%s: %s, trimmed %d", tt.reason, got, trimmed)
		}
	}
}

// Those that became valid first go, wherever they are, and none of the source.
func TestMergeBounds(t *testing.T) {
	var many []*x509.Certificate
	for i := range MostCertificates {
		many = append(many, newCA(t, fmt.Sprint(i), time.Duration(i%5)*time.Minute))
	}
	oldest := slices.MinFunc(many, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) })
	source := newCA(t, "source", time.Hour) // older than all others
	bundle, changed, trimmed := Merge(pki.EncodeCertificates(many...), []*x509.Certificate{source}, now)
	after, err := pki.ParseBundle(bundle)
	if err != nil || !changed || trimmed != 1 || len(after) != MostCertificates {
		t.Fatalf("%d certificates, changed %t, trimmed %d, %v", len(after), changed, trimmed, err)
	}
	if slices.ContainsFunc(after, oldest.Equal) || !after[MostCertificates-1].Equal(source) {
		t.Errorf("it has %s", names(after))
	}
	if _, changed, trimmed := Merge(bundle, []*x509.Certificate{source}, now); changed || trimmed != 0 {
		t.Errorf("a second time: changed %t, trimmed %d", changed, trimmed)
	}

	big := append(slices.Clone(many), newCA(t, "more", 0), newCA(t, "still more", 0))
	if bundle, _, trimmed := Merge(nil, big, now); trimmed != 0 || !bytes.Equal(bundle, pki.EncodeCertificates(big...)) {
		t.Errorf("of a source with more: trimmed %d", trimmed)
	}
}

// A definition that no webhook converts has no field.
func TestFields(t *testing.T) {
	for _, tt := range []struct {
		reason string
		of     func(map[string]any) ([]Field, map[string]any)
		object map[string]any
		want   int
	}{
		{"no conversion", conversion, map[string]any{"spec": map[string]any{}}, 0},
		{"no webhook", conversion, map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "None"}}}, 0},
		{"webhook", conversion, map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "Webhook"}}}, 1},
		{"no webhooks", webhooks, map[string]any{}, 0},
		{"two webhooks", webhooks, map[string]any{"webhooks": []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}}, 2},
		{"an APIService", service, map[string]any{"spec": map[string]any{}}, 1},
	} {
		if fields, _ := tt.of(tt.object); len(fields) != tt.want {
			t.Errorf("%s: %d fields", tt.reason, len(fields))
		}
	}
}

func TestSource(t *testing.T) {
	const direct, certificate, api = "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-ca-from", "cert-manager.io/inject-apiserver-ca"
	for _, tt := range []struct {
		reason      string
		annotations map[string]string
		annotation  string
		name        string // of the object; empty if it is not valid
	}{
		{"none", map[string]string{"other": "a/b"}, "", ""},
		{"a Secret first", map[string]string{direct: "a/b", certificate: "c/d", api: "true"}, direct, "a/b"},
		{"a Certificate next", map[string]string{certificate: "c/d", api: "true"}, certificate, "c/d"},
		{"the API last", map[string]string{api: "true"}, api, ""},
		{"not the API", map[string]string{api: "false"}, "", ""},
		{"no namespace", map[string]string{direct: "b"}, direct, ""},
		{"an empty namespace", map[string]string{direct: "/b"}, direct, ""},
		{"an empty name", map[string]string{direct: "a/"}, direct, ""},
		{"no name", map[string]string{direct: "a/b/c"}, direct, ""},
	} {
		from := SourceOf(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}})
		name, valid := from.Object()
		if from.Annotation != tt.annotation || valid != (tt.name != "") || valid && name.String() != tt.name {
			t.Errorf("%s: %v, %s, %t", tt.reason, from, name, valid)
		}
	}
}
