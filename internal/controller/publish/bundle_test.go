package publish

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
)

func newCA(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(name, key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate()
}

func TestBundle(t *testing.T) {
	a, b := newCA(t, "a"), newCA(t, "b")
	encode := func(certs ...*x509.Certificate) string { return string(pki.EncodeCertificates(certs...)) }
	for _, tt := range []struct {
		reason, shared, want string
	}{
		{"nobody was there before", "", encode(a)},
		{"it is there", encode(a), encode(a)},
		{"another server was there first", encode(b), encode(b, a)},
		{"both are there, in the other's order", encode(b, a), encode(b, a)},
		{"text is dropped", "text\n" + encode(a), encode(a)},
		{"no bundle at all", "nothing", encode(a)},
		{"a broken certificate", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", encode(a)},
	} {
		if got := Bundle([]*x509.Certificate{a}, tt.shared); got != tt.want {
			t.Errorf("%s: got\n%swant\n%s", tt.reason, got, tt.want)
		}
	}
}

func TestMend(t *testing.T) {
	config := func(annotations, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: annotations, Labels: map[string]string{"l": "1"}}, Data: data}
	}
	described, right := map[string]string{descriptionAnnotation: "other words"}, map[string]string{key: "bundle"}
	for _, tt := range []struct {
		reason string
		stored *corev1.ConfigMap
		want   bool
	}{
		{"as it should be, in other words", config(described, right), false},
		{"no description", config(nil, right), true},
		{"no data", config(described, nil), true},
		{"more data", config(described, map[string]string{key: "bundle", "more": ""}), true},
	} {
		mended, changed := mend(tt.stored, "bundle")
		if changed != tt.want {
			t.Errorf("%s: changed = %v", tt.reason, changed)
		}
		if !changed {
			continue
		}
		want := config(map[string]string{descriptionAnnotation: description}, right)
		if diff := cmp.Diff(want, mended); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
}
