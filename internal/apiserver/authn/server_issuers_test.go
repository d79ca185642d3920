package authn_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/certplane/certplane/internal/apiserver/authn/oidctest"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

func TestOpenIDConnect(t *testing.T) {
	issuer := oidctest.Start(t)
	file := writeFile(t, []byte(issuer.Config(t, "oidc:")))
	s := apitest.Start(t, func(c *server.Config) { c.Authentication.ConfigFile = file })
	login := bearer(t, s, issuer.Token(t, map[string]any{"groups": []string{"staff"}}))
	apitest.Eventually(t, "the issuer is known", func() bool { _, err := whoami(t, login); return err == nil })
	user, err := whoami(t, login)
	if err != nil {
		t.Fatal(err)
	}
	want := authenticationv1.UserInfo{Username: "oidc:ann", Groups: []string{"oidc:staff", "system:authenticated"}}
	if diff := cmp.Diff(want, user); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	if review := w.review(t, login.BearerToken); !review.Authenticated || review.User.Username != "oidc:ann" {
		t.Errorf("the review says %+v", review)
	}
	if _, err := whoami(t, bearer(t, s, oidctest.Start(t).Token(t, nil))); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token of another issuer is answered with %v", err)
	}

	nobody := `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthenticationConfiguration","jwt":[],"anonymous":{"enabled":false}}`
	if err := os.WriteFile(file, []byte(nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the token is refused", func() bool { _, err := whoami(t, login); return apierrors.IsUnauthorized(err) })
	if err := get(t, s.Anonymous(t), "/readyz", nil); !apierrors.IsUnauthorized(err) {
		t.Errorf("with anonymous access off, /readyz is answered with %v", err)
	}
}

// get reads a path that is not an API object.
func get(t *testing.T, cfg *rest.Config, path string, into *[]byte) error {
	t.Helper()
	data, err := apitest.Client(t, cfg).Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
	if into != nil {
		*into = data
	}
	return err
}

// Another service can verify a token with only what the server publishes.
func TestDiscoveryVerifiesTokens(t *testing.T) {
	w := newWorld(t, common.Start(t))
	token := w.token(t, authenticationv1.TokenRequestSpec{Audiences: []string{"vault", "https://kubernetes.default.svc"}})
	login := bearer(t, w.Server, token)

	var data []byte
	if err := get(t, login, "/.well-known/openid-configuration", &data); err != nil {
		t.Fatal(err)
	}
	var config struct {
		Issuer  string `json:"issuer"`
		KeysURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	path, ours := strings.CutPrefix(config.KeysURI, w.URL)
	if !ours {
		t.Fatalf("jwks_uri is %s, not on %s", config.KeysURI, w.URL)
	}
	if err := get(t, login, path, &data); err != nil {
		t.Fatal(err)
	}
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(data, &keys); err != nil {
		t.Fatal(err)
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256, jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := signed.Verify(keys.Key(signed.Signatures[0].Header.KeyID)[0])
	if err != nil {
		t.Fatalf("verifying the token: %v", err)
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Issuer != config.Issuer {
		t.Errorf("the token's issuer is %q, the document's %q, error %v", claims.Issuer, config.Issuer, err)
	}
}

// The administrator chooses who may read the documents; by default, service
// accounts may.
func TestDiscoveryIsNotForAll(t *testing.T) {
	s := common.Start(t)
	for _, path := range []string{"/.well-known/openid-configuration", "/openid/v1/jwks"} {
		if err := get(t, s.Anonymous(t), path, nil); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: without credentials the answer is %v", path, err)
		}
		if err := get(t, s.Login(t, "ann"), path, nil); !apierrors.IsForbidden(err) {
			t.Errorf("%s: for any user the answer is %v", path, err)
		}
	}
}

// webhook runs a server that accepts the token "hook" and counts its calls.
func webhook(t *testing.T, asked *atomic.Int32) string {
	t.Helper()
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.APIVersion != "authentication.k8s.io/v1" {
			http.Error(w, "not a TokenReview", http.StatusBadRequest)
			return
		}
		if review.Spec.Token == "hook" {
			review.Status.Authenticated = true
			review.Status.User = authenticationv1.UserInfo{Username: "hook:ann", Groups: []string{"staff"}}
		}
		json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(hook.Close)
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"hook": {
			Server: hook.URL, CertificateAuthorityData: pki.EncodeCertificates(hook.Certificate()),
		}},
		Contexts:       map[string]*clientcmdapi.Context{"hook": {Cluster: "hook"}},
		CurrentContext: "hook",
	})
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, data)
}

func TestWebhook(t *testing.T) {
	var asked atomic.Int32
	kubeconfig := webhook(t, &asked)
	s := apitest.Start(t, func(c *server.Config) { c.Authentication.Webhook.Kubeconfig = kubeconfig })
	if got := asked.Load(); got != 0 {
		t.Errorf("the webhook was asked %d times about the server's own tokens", got)
	}
	for range 3 {
		user, err := whoami(t, bearer(t, s, "hook"))
		if err != nil {
			t.Fatal(err)
		}
		want := authenticationv1.UserInfo{Username: "hook:ann", Groups: []string{"staff", "system:authenticated"}}
		if diff := cmp.Diff(want, user); diff != "" {
			t.Errorf("user (-want +got):\n%s", diff)
		}
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("the webhook was asked %d times about one token", got)
	}
	if _, err := whoami(t, bearer(t, s, "what")); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token that nobody knows is answered with %v", err)
	}
}
