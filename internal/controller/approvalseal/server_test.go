package approvalseal_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/approvalseal"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
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
	process := func() *approvalseal.Config {
		return &approvalseal.Config{Client: api, Secret: name, Rand: rand.Reader, Seals: &policies.Seals{}}
	}
	keep := func(r *approvalseal.Config) error { return r.Keep(t.Context()) }
	first, second := process(), process()
	for _, r := range []*approvalseal.Config{first, second} {
		if err := keep(r); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := first.Seals.Seal(quorum.Record{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	opens := func(r *approvalseal.Config) bool {
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
	if err := replace(map[string][]byte{approvalseal.KeyField: key, approvalseal.FormerField: publicKey(t, second.Seals.Keys()[0])}); err != nil || !opens(second) {
		t.Errorf("with a new key, and the former one (%v): opened: %v", err, opens(second))
	}
	for reason, data := range map[string]map[string][]byte{
		"no key":                       {"other": []byte("x")},
		"a broken one":                 {approvalseal.KeyField: []byte("x")},
		"a former key that is private": {approvalseal.KeyField: key, approvalseal.FormerField: key},
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
	if err := replace(map[string][]byte{approvalseal.KeyField: key}); err != nil || opens(second) {
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
	text, err := policies.EncodeSealKeys([]ed25519.PublicKey{key})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The keys are published once there are some, others with the next change, and what
// users make of the ConfigMap is undone.
func TestPublish(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	api, err := client.New(s.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	served := client.ObjectKey{Namespace: rights.ServeNamespace, Name: rights.ApprovalKeys}
	other := client.ObjectKey{Namespace: "default", Name: rights.ApprovalKeys}
	published := func(name client.ObjectKey) []ed25519.PublicKey {
		config := &corev1.ConfigMap{}
		if err := api.Get(t.Context(), name, config); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		keys, err := policies.ParseSealKeys([]byte(config.Data[policies.SealKeysField]))
		if err != nil {
			return nil
		}
		return keys
	}
	var good []ed25519.PublicKey
	apitest.Eventually(t, "the server publishes its key", func() bool {
		good = published(served)
		return len(good) == 1
	})
	for reason, data := range map[string]string{
		"another key": string(publicKey(t, make(ed25519.PublicKey, ed25519.PublicKeySize))), "no key": "x",
	} {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: served.Namespace, Name: served.Name}}
		config.Data = map[string]string{policies.SealKeysField: data, "more": "x"}
		config.Immutable = new(true)
		if err := api.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, "the server publishes its key again after "+reason, func() bool { return reflect.DeepEqual(published(served), good) })
	}

	p := approvalseal.PublishConfig{Client: api, Namespace: other.Namespace, Seals: &policies.Seals{}}
	publish := func() []ed25519.PublicKey {
		t.Helper()
		if err := p.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		return published(other)
	}
	if keys := publish(); keys != nil {
		t.Errorf("published %v without a key", keys)
	}
	changed := 0
	defer p.Seals.Subscribe(func(struct{}) { changed++ })()
	for n := 1; n <= 3; n++ {
		key, err := pki.ParsePrivateKey(newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Seals.Use(key, p.Seals.Keys()...); err != nil {
			t.Fatal(err)
		}
		if keys := publish(); changed != n || len(keys) != n || !reflect.DeepEqual(keys, p.Seals.Keys()) {
			t.Errorf("published %d of %d keys, told %d times", len(keys), n, changed)
		}
	}
}
