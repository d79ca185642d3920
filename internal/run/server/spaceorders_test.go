package server_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

// Orders of strangers count for the namespace of their ServiceAccount: at its share they are
// refused, and others are not.
func TestOrdersOfStrangersAreCharged(t *testing.T) {
	t.Parallel()
	address := apitest.FreeAddress(t)
	s := apitest.Start(t, smallStore, func(cfg *server.Config) {
		cfg.Etcd.MaxPercentPerTenant = 4
		cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL = address, "https://"+address
	})
	w := spaceWorld{s, apitest.Client(t, s.Admin(t))}
	for i := range 18 { // so much that tenants are held to their shares
		name := fmt.Sprintf("other-%d", i)
		w.bindEditor(t, name)
		if err := w.add(t, w.admin, name, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.newEditor(t, "b")
	w.bindEditor(t, "strangers")
	w.openEndpoint(t, "strangers")
	insecure, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	made, refused := 0, (*acme.Error)(nil)
	for refused == nil && made < 200 {
		c := &acme.Client{
			Key: apitest.NewKey(t), HTTPClient: insecure, DirectoryURL: "https://" + address + "/acme/open/directory",
			RetryBackoff: func(int, *http.Request, *http.Response) time.Duration { return -1 },
		}
		apitest.Eventually(t, "a stranger has an account", func() bool {
			_, err := c.Register(t.Context(), &acme.Account{}, acme.AcceptTOS)
			return err == nil || errors.As(err, &refused) && refused.StatusCode == http.StatusServiceUnavailable && made > 0
		})
		for range 45 { // fewer than pendingOrdersPerAccount
			if _, err = c.AuthorizeOrder(t.Context(), acme.DomainIDs(strangeNames()...)); err != nil {
				break
			}
			made++
		}
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
	if refused == nil || refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Fatalf("after %d orders: %v", made, refused)
	}
	t.Logf("refused after %d orders: %v", made, refused)
	if err := w.add(t, w.editor(t, "b"), "b", 0); err != nil {
		t.Errorf("another tenant writes: %v", err)
	}
}

func strangeNames() []string {
	var names []string
	for range 100 {
		label := make([]byte, 30)
		_, _ = rand.Read(label)
		names = append(names, hex.EncodeToString(label)+".corp.example")
	}
	return names
}

// openEndpoint makes an endpoint whose accounts act as a ServiceAccount of a namespace.
func (w *spaceWorld) openEndpoint(t *testing.T, namespace string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	if _, err := w.admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ofCluster, _ := rights.ACMERequester("open", rights.ACMERequests{OfSigners: true})
	w.Grant(t, "system:serviceaccount:"+namespace+":acme", ofCluster...)
	for name, rules := range rights.ACMEConsent("acme") {
		w.Grant(t, "system:serviceaccount:"+rights.ServeNamespace+":"+name, rules...)
	}
	admin, err := dynamic.NewForConfig(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	endpoint := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "certplane.dev/v1alpha1", "kind": "AcmeEndpoint", "metadata": map[string]any{"name": "open"},
		"spec": map[string]any{
			"accounts":    map[string]any{"admission": "Open", "serviceAccount": map[string]any{"namespace": namespace, "name": "acme"}},
			"identifiers": map[string]any{"dns": map[string]any{"allow": []any{"*.corp.example"}}},
			"profiles":    []any{map[string]any{"name": "server", "signer": map[string]any{"name": "corp.example/hosts"}}},
			"challenges":  map[string]any{"types": []any{"http-01", "dns-01"}},
		},
	}}
	apitest.Eventually(t, "the endpoint is stored", func() bool {
		_, err := admin.Resource(v1alpha1.GroupVersion.WithResource("acmeendpoints")).Create(t.Context(), endpoint, metav1.CreateOptions{})
		return err == nil
	})
}
