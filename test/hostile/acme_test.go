package hostile

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/rights"
)

// acmeEnv has the address at which the server answers ACME clients.
const acmeEnv = "CERTPLANE_HOSTILE_TEST_ACME"

// acmeClient attacks where ACME clients are answered.
const acmeClient = "an ACME client without an account"

const acmePath = "/acme/corp/"

// acmeAttacks are attacks on the ACME server. During them, the API in the same process
// must answer, and ACME clients at other addresses must be served.
var acmeAttacks = []attack{
	{"nonces", []string{acmeClient}, acmeFlood(32, http.MethodGet, acmePath+"new-nonce", nil)},
	{"forged signatures", []string{acmeClient}, acmeFlood(32, http.MethodPost, acmePath+"new-account", forged)},
	{"large messages", []string{acmeClient}, acmeFlood(16, http.MethodPost, acmePath+"new-account", func(*rest.Config) ([]byte, error) { return bytes.Repeat([]byte(" "), 60<<10), nil })},
	{"messages that do not end", []string{acmeClient}, hold(request{
		method: http.MethodPost, path: acmePath + "new-account", body: "{", header: []string{"content-type", "application/jose+json", "content-length", "1000"},
	}, 60, 30)},
	{"connections to the ACME server", []string{acmeClient}, hold(request{path: acmePath + "directory"}, 200, 1)},
	{"connections to the ACME server without TLS", []string{acmeClient}, silentConnections(400)},
}

// makeEndpoint declares the endpoint of the ACME server, and returns its client.
func (w *world) makeEndpoint(t *testing.T) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	if _, err := w.admin.CoreV1().ServiceAccounts(team).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	who, err := client(w.Admin(t), false)
	if err != nil {
		t.Fatal(err)
	}
	// Strangers may order, as far as limits go.
	ofCluster, _ := rights.ACMERequester("corp", rights.ACMERequests{OfSigners: true})
	w.Grant(t, "system:serviceaccount:"+team+":acme", ofCluster...)
	for _, rules := range rights.ACMEConsent("acme") {
		w.Grant(t, "system:serviceaccount:"+rights.ServeNamespace+":"+rights.ServeACMEOrders.Account, rules...)
	}
	spec := map[string]any{
		"accounts":    map[string]any{"admission": "Open", "serviceAccount": map[string]any{"namespace": team, "name": "acme"}},
		"identifiers": map[string]any{"dns": map[string]any{"allow": []string{"*.corp.example"}}},
		"profiles":    []any{map[string]any{"name": "server", "signer": map[string]any{"name": "corp.example/hosts"}}},
		"challenges":  map[string]any{"types": []string{"http-01"}},
	}
	endpoint := map[string]any{"apiVersion": "certplane.dev/v1alpha1", "kind": "AcmeEndpoint", "metadata": map[string]any{"name": "corp"}, "spec": spec}
	apitest.Eventually(t, "the endpoint is stored", func() bool {
		return w.do(t.Context(), who, http.MethodPost, "/apis/certplane.dev/v1alpha1/acmeendpoints", endpoint, nil) == nil
	})
	cfg := &rest.Config{Host: "https://" + w.Config.ACMEServer.Listen, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	apitest.Eventually(t, "the endpoint is served", func() bool { return directory(t.Context(), cfg) == nil })
	return cfg
}

// directory reads the directory, as each ACME client does first.
func directory(ctx context.Context, cfg *rest.Config) error {
	who, err := client(cfg, true)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+acmePath+"directory", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := who.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// forged returns a message for a new account whose signature is wrong: the key and the
// signature have to be checked to find out.
func forged(cfg *rest.Config) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	text := base64.RawURLEncoding.EncodeToString
	protected, err := json.Marshal(map[string]any{
		"alg": "ES256", "nonce": strings.Repeat("A", 59), "url": cfg.Host + acmePath + "new-account",
		"jwk": map[string]string{"kty": "EC", "crv": "P-256", "x": text(point[1:33]), "y": text(point[33:])},
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"protected": text(protected), "payload": text([]byte("{}")), "signature": text(bytes.Repeat([]byte{1}, 64))})
}

// acmeFlood sends the same message again after each answer.
func acmeFlood(workers int, method, path string, message func(*rest.Config) ([]byte, error)) attackFunc {
	return func(ctx context.Context, _ *world, cfg *rest.Config, counts *tally, armed func()) error {
		var body []byte
		if message != nil {
			var err error
			if body, err = message(cfg); err != nil {
				return err
			}
		}
		var group sync.WaitGroup
		for range workers {
			who, err := client(cfg, false)
			if err != nil {
				return err
			}
			group.Go(func() {
				for ctx.Err() == nil {
					counts.add(acmeStatus(ctx, who, method, cfg.Host+path, body))
				}
			})
		}
		armed()
		group.Wait()
		return nil
	}
}

func acmeStatus(ctx context.Context, who *http.Client, method, url string, body []byte) string {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Content-Type", "application/jose+json")
	answer, err := who.Do(request)
	if err != nil {
		pause(ctx)
		return "no answer"
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return fmt.Sprint(answer.StatusCode)
}
