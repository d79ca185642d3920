package approvalseal

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/server"
)

// All processes use the key of the first one. After it is replaced, what it has
// sealed is opened for as long as its public key is among the former ones. A
// Secret that cannot be read stays as it is, and so does the key in use.
func TestKey(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	api, err := client.New(s.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	name := client.ObjectKey{Namespace: "default", Name: "seal"}
	process := func() *reconciler {
		return &reconciler{Config{Client: api, Secret: name, Rand: rand.Reader, Seals: &policies.Seals{}}}
	}
	keep := func(r *reconciler) error {
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: name})
		return err
	}
	first, second := process(), process()
	for _, r := range []*reconciler{first, second} {
		if err := keep(r); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := first.Seals.Seal(quorum.Record{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	opens := func(r *reconciler) bool {
		record, err := r.Seals.Open(sealed)
		return err == nil && record.User == "alice"
	}
	if !opens(second) {
		t.Error("the second process does not open what the first one has sealed")
	}

	secret := &corev1.Secret{}
	replace := func(data map[string][]byte) error {
		t.Helper()
		if err := api.Get(t.Context(), name, secret); err != nil {
			t.Fatal(err)
		}
		secret.Data = data
		if err := api.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		return keep(second)
	}
	key := newKey(t)
	if err := replace(map[string][]byte{KeyField: key, FormerField: publicKey(t, second.Seals.Keys()[0])}); err != nil || !opens(second) {
		t.Errorf("with a new key, and the former one (%v): opened: %v", err, opens(second))
	}
	for reason, data := range map[string]map[string][]byte{
		"no key":                       {"other": []byte("x")},
		"a broken one":                 {KeyField: []byte("x")},
		"a former key that is private": {KeyField: key, FormerField: key},
	} {
		if err := replace(data); err == nil || !strings.Contains(err.Error(), "default/seal") {
			t.Errorf("%s: %v", reason, err)
		}
		if !opens(second) || len(second.Seals.Keys()) != 2 {
			t.Errorf("%s: the keys that were in use are not any more", reason)
		}
		if err := api.Get(t.Context(), name, secret); err != nil || !slices.Equal(slices.Sorted(maps.Keys(secret.Data)), slices.Sorted(maps.Keys(data))) {
			t.Errorf("%s: the Secret was changed: %v", reason, err)
		}
	}
	if err := replace(map[string][]byte{KeyField: key}); err != nil || opens(second) {
		t.Errorf("without the former key (%v): opened: %v", err, opens(second))
	}
}

func newKey(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func publicKey(t *testing.T, key ed25519.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
