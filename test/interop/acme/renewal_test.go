package acme

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/pki"
)

// setRenewalInfo replaces Pebble's window for a certificate.
func (w *world) setRenewalInfo(leaf []byte, start, end time.Time) {
	w.t.Helper()
	window := fmt.Sprintf(`{"suggestedWindow":{"start":%q,"end":%q},"explanationURL":"https://pebble.example/incident"}`,
		start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
	body, err := json.Marshal(map[string]string{
		"Certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf})), "ARIResponse": window,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, "/set-renewal-info/", bytes.NewReader(body))
	request.Header.Set("User-Agent", "test")
	w.acme.management.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		w.t.Fatalf("setting renewal information: %d %s", answer.Code, answer.Body)
	}
}

// A certificate is renewed when Pebble suggests it, and the order names the one
// that it replaces.
func TestRenewalInformation(t *testing.T) {
	w := newWorld(t, pebbleOptions{})
	w.issuer("http", byHTTP)
	leaf := w.certificate("web", "http", func(s *cmv1.CertificateSpec) { s.DNSNames = []string{"a.example.com"} })
	crt := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
	eventually(t, "Pebble has suggested a window", func() bool {
		w.get(crt)
		acme := crt.Status.ACME
		return acme != nil && acme.ARI != nil && acme.ARI.SuggestedWindow != nil
	})
	ari := crt.Status.ACME.ARI
	if at := crt.Status.RenewalTime; at.Before(ari.SuggestedWindow.Start) || ari.SuggestedWindow.End.Before(at) {
		t.Errorf("renewed at %v, want a time from %v to %v", at, ari.SuggestedWindow.Start, ari.SuggestedWindow.End)
	}
	if wait := ari.NextCheck.Sub(ari.LastChecked.Time); wait < 6*time.Hour || wait > 7*time.Hour {
		t.Errorf("asked again after %v", wait)
	}

	now := time.Now()
	w.setRenewalInfo(leaf.Raw, now.Add(-2*time.Hour), now.Add(-time.Hour))
	// Renewals that a CA suggests are an hour apart, as far as the last request says.
	if err := w.admin.Delete(t.Context(), &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-1"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Pebble is asked again", func() bool {
		w.get(crt)
		if crt.Status.ACME == nil || crt.Status.ACME.ARI == nil {
			return false
		}
		crt.Status.ACME.ARI.NextCheck = &metav1.Time{Time: now}
		return w.admin.Status().Update(t.Context(), crt) == nil
	})
	eventually(t, "the certificate is renewed", func() bool {
		w.get(crt)
		return crt.Status.Revision != nil && *crt.Status.Revision == 2
	})
	orders := &acmev1.OrderList{}
	if err := w.admin.List(t.Context(), orders, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	for _, o := range orders.Items {
		if o.Annotations[cmv1.CertificateRequestRevisionAnnotationKey] == "2" && o.Spec.Replaces == pki.CertID(leaf) {
			return
		}
	}
	t.Errorf("no order of the second certificate replaces %s: %+v", pki.CertID(leaf), orders.Items)
}
