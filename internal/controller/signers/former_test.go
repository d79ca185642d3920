package signers

import (
	"crypto/x509"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

func TestForgetFormer(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Data: map[string][]byte{"tls.crt": []byte("stays"), "former-note": []byte("stays")}}
	former := func(until string) (*x509.Certificate, string) {
		t.Helper()
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		keyPEM, err := pki.EncodePrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		ca, err := pki.NewRoot(pki.UnrecordedSigning, "former", key, 10*time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		cert := ca.Certificate()
		id := revocation.ListID(cert)
		secret.Data["former-"+id+".crt"], secret.Data["former-"+id+".key"] = pki.EncodeCertificates(cert), keyPEM
		secret.Annotations["certplane.dev/former-"+id] = until
		return cert, id
	}
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	_, soon := former(at(time.Hour))
	_, later := former(at(2 * time.Hour))
	forever, unknown := former("soon") // the end of the CA counts
	former(at(20 * time.Hour))         // likewise
	leaked, distrusted := former(at(3 * time.Hour))
	_, damaged := former(at(3 * time.Hour))
	secret.Data["former-"+damaged+".crt"] = []byte("x")
	distrusts := leaked.Equal
	names := func() []string { return formerNames(secret.Data) }
	has := func(reason string, want ...string) {
		t.Helper()
		for _, id := range []string{soon, later, unknown, distrusted, damaged} {
			if got := slices.Contains(names(), id); got != slices.Contains(want, id) {
				t.Errorf("%s: has %s: %v", reason, id, got)
			}
			if _, annotated := secret.Annotations["certplane.dev/former-"+id]; annotated != slices.Contains(want, id) {
				t.Errorf("%s: has the annotation of %s: %v", reason, id, annotated)
			}
		}
	}
	if changed, next := forgetFormer(secret, distrusts, now); !changed || !next.Equal(now.Add(time.Hour)) {
		t.Errorf("at first: %v, next at %v", changed, next)
	}
	has("at first", soon, later, unknown)
	if open := openFormer(secret); len(open) != 4 {
		t.Errorf("%d are open", len(open))
	}
	secret.Data["former-"+soon+".key"] = []byte("x")
	if open := openFormer(secret); len(open) != 3 {
		t.Errorf("with a damaged key, %d are open", len(open))
	}
	if changed, next := forgetFormer(secret, distrusts, now.Add(time.Hour)); !changed || !next.Equal(now.Add(2*time.Hour)) {
		t.Errorf("after an hour: %v, next at %v", changed, next)
	}
	has("after an hour", later, unknown)
	if changed, next := forgetFormer(secret, distrusts, now.Add(3*time.Hour)); !changed || !next.Equal(forever.NotAfter) {
		t.Errorf("after three hours: %v, next at %v", changed, next)
	}
	if changed, _ := forgetFormer(secret, distrusts, now.Add(3*time.Hour)); changed {
		t.Error("it changes without a reason")
	}
	// Many are bounded.
	cert := secret.Data["former-"+unknown+".crt"]
	for n := range mostFormer + 5 {
		secret.Data[fmt.Sprintf("former-%03d.crt", n)], secret.Data[fmt.Sprintf("former-%03d.key", n)] = cert, []byte("x")
		secret.Annotations[fmt.Sprintf("certplane.dev/former-%03d", n)] = at(4*time.Hour + time.Duration(n)*time.Minute)
	}
	if changed, next := forgetFormer(secret, distrusts, now.Add(3*time.Hour)); !changed || len(names()) != mostFormer || next.Equal(now.Add(4*time.Hour)) {
		t.Errorf("%d are kept, next at %v", len(names()), next)
	}
	has("of many", unknown)
	if changed, next := forgetFormer(secret, distrusts, forever.NotAfter); !changed || !next.IsZero() || len(secret.Data) != 2 {
		t.Errorf("at the end of the CA, the Secret has %d keys, next at %v", len(secret.Data), next)
	}
}
