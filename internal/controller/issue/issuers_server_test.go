package issue_test

import (
	"bytes"
	"crypto/x509"
	"os"
	"testing"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// The example works as it is: a self-signed issuer makes a root, and an issuer
// with that root makes a server's certificate.
func TestExample(t *testing.T) {
	w := newWorldIn(t, apitest.Start(t), "shop")
	w.applyFile(t, "../../../deploy/examples/cert-manager/ca-and-certificate.yaml")
	root := leaf(t, w.secretOf(t, "root", "root-ca"))
	secret := w.secretOf(t, "web", "web-tls")
	if secret.Labels["app"] != "web" {
		t.Errorf("labels: %v", secret.Labels)
	}
	roots, err := pki.ParseCertificates(secret.Data[cmmeta.TLSCAKey])
	if err != nil || len(roots) != 1 || !roots[0].Equal(root) {
		t.Errorf("ca.crt is not the root: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	cert := leaf(t, secret)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: "web.shop.example.com"}); err != nil {
		t.Error(err)
	}
	key, err := pki.ParsePrivateKey(secret.Data["tls.key"])
	if err != nil || !pki.SameKey(key.Public(), cert.PublicKey) {
		t.Errorf("tls.key is not the certificate's: %v", err)
	}

	// It is renewed by hand, and once only.
	w.renew(t, "web")
	w.issued(t, "web", 2)
	apitest.Eventually(t, "the Secret has another certificate", func() bool {
		return !leaf(t, w.secretOf(t, "web", "web-tls")).Equal(cert)
	})
}

// applyFile creates the objects in a file of manifests.
func (w *world) applyFile(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
