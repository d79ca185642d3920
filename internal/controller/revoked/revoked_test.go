package revoked

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// certificate returns a certificate with a serial number, and its PEM.
func certificate(t *testing.T, serial *big.Int) (*x509.Certificate, string) {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial, NotAfter: noon.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func digest(der []byte) revocation.Digest {
	sum := sha256.Sum256(der)
	return revocation.Digest(sum[:16])
}

func object(t *testing.T, name string, reason v1alpha1.RevocationReason, certificates ...v1alpha1.RevokedCertificate) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.Revocation{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certplane.dev/v1alpha1", Kind: "Revocation"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Time{Time: noon}, ResourceVersion: "1"},
		Spec:       v1alpha1.RevocationSpec{Certificates: certificates, Reason: reason},
		Status:     v1alpha1.RevocationStatus{Time: &metav1.Time{Time: noon.Add(-time.Hour)}}, // which others may write
	})
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

// What can be refused is refused, whatever else a Revocation has, and stays so.
func TestFold(t *testing.T) {
	cert, text := certificate(t, big.NewInt(1))
	long, longText := certificate(t, new(big.Int).Lsh(big.NewInt(1), 200))
	first, second := sha256.Sum256([]byte("first")), sha256.Sum256([]byte("second"))
	follower := New(dynamic.NewForConfigOrDie(&rest.Config{}))
	store := follower.store()
	objects := []*unstructured.Unstructured{
		object(t, "a", "KeyCompromise", v1alpha1.RevokedCertificate{PEM: "x"}, v1alpha1.RevokedCertificate{SerialNumber: "1", AuthorityKeyID: "0"}, v1alpha1.RevokedCertificate{PEM: text}),
		object(t, "b", "Superseded", v1alpha1.RevokedCertificate{Fingerprint: strings.ToUpper(hex.EncodeToString(first[:]))}),
		object(t, "c", "AffiliationChanged", v1alpha1.RevokedCertificate{Fingerprint: hex.EncodeToString(second[:])}),
		object(t, "d", "odd", v1alpha1.RevokedCertificate{PEM: longText}),
	}
	if err := store.Replace([]any{objects[0], objects[1]}, ""); err != nil || follower.AwaitRead(t.Context()) != nil {
		t.Fatal(err)
	}
	for _, o := range objects[2:] {
		if err := store.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range objects {
		if err := store.Delete(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	twin, _ := pki.OtherForm(cert)
	for _, tc := range []struct {
		reason string
		of     revocation.Digest
		want   pki.Reason
		by     string
	}{
		{"the certificate", digest(cert.Raw), pki.ReasonKeyCompromise, "a"},
		{"its other form", digest(twin), pki.ReasonKeyCompromise, "a"},
		{"a fingerprint", digest([]byte("first")), pki.ReasonSuperseded, "b"},
		{"another one", digest([]byte("second")), pki.ReasonAffiliationChanged, "c"},
		{"a long serial number, an unknown reason", digest(long.Raw), pki.ReasonUnspecified, "d"},
	} {
		got, ok := follower.Revoked().Fingerprint(tc.of)
		if !ok || got.Reason != tc.want || got.By.Name != tc.by || !got.Time.Equal(noon) {
			t.Errorf("%s: %t, %+v", tc.reason, ok, got)
		}
	}
	if follower.Revoked().Len() != 4 {
		t.Errorf("%d certificates", follower.Revoked().Len())
	}
}

// Without a definition of Revocations there are none. Those of a later one are followed.
func TestWithoutDefinition(t *testing.T) {
	cert, text := certificate(t, big.NewInt(1))
	event, err := json.Marshal(map[string]any{"type": "ADDED", "object": object(t, "a", "KeyCompromise", v1alpha1.RevokedCertificate{PEM: text}).Object})
	if err != nil {
		t.Fatal(err)
	}
	var defined atomic.Bool
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !defined.Load() || r.URL.Path != "/apis/certplane.dev/v1alpha1/revocations":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case r.URL.Query().Get("watch") == "":
			fmt.Fprint(w, `{"kind":"RevocationList","apiVersion":"certplane.dev/v1alpha1","metadata":{"resourceVersion":"1"},"items":[]}`)
		default:
			fmt.Fprintf(w, "%s\n", event)
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Revocation","apiVersion":"certplane.dev/v1alpha1","metadata":{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer api.Close()
	client, err := dynamic.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	f := New(client)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Start(ctx) }()
	defer func() { stop(); <-ended }()
	if err := f.AwaitRead(t.Context()); err != nil || f.Revoked().Len() > 0 {
		t.Fatal(err)
	}
	_, changed := f.Revoked().Changed()
	defined.Store(true)
	<-changed
	if _, ok := f.Revoked().Fingerprint(digest(cert.Raw)); !ok {
		t.Error("the certificate is not refused")
	}
}
