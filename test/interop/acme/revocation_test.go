package acme

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// status returns what Pebble says about a certificate, and the reason code of its revocation.
func (w *world) status(leaf *x509.Certificate) (status string, reason int) {
	w.t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/cert-status-by-serial/"+leaf.SerialNumber.Text(16), http.NoBody)
	answer := httptest.NewRecorder()
	w.acme.management.ServeHTTP(answer, request)
	var got struct {
		Status string
		Reason int
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		w.t.Fatalf("%d %s: %v", answer.Code, answer.Body, err)
	}
	return got.Status, got.Reason
}

// A Revocation is passed on to Pebble; a second one finds the certificate revoked there.
func TestRevocation(t *testing.T) {
	w := newWorld(t, pebbleOptions{})
	if err := v1alpha1.AddToScheme(w.admin.Scheme()); err != nil {
		t.Fatal(err)
	}
	w.issuer("http", byHTTP)
	leaf := w.certificate("web", "http", func(s *cmv1.CertificateSpec) { s.DNSNames = []string{"a.example.com"} })
	other := w.certificate("other", "http", func(s *cmv1.CertificateSpec) { s.DNSNames = []string{"b.example.com"} })
	for _, name := range []string{"first", "again"} {
		r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RevocationSpec{
			Reason: "CessationOfOperation", Certificates: []v1alpha1.RevokedCertificate{{Fingerprint: pki.Fingerprint(leaf)}},
		}}
		w.create(r)
		eventually(t, "it is passed on", func() bool {
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
				t.Fatal(err)
			}
			return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.RevocationPassedOn)
		})
	}
	if status, reason := w.status(leaf); status != "Revoked" || reason != int(pki.ReasonCessationOfOperation) {
		t.Errorf("Pebble says %s, reason %d", status, reason)
	}
	if status, _ := w.status(other); status != "Valid" {
		t.Errorf("Pebble says of another certificate: %s", status)
	}
}
