package console_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apiserver/authn/oidctest"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/console"
	"github.com/certplane/certplane/internal/run/server"
)

// Users log in at their provider, and are to the API who the provider says they are.
func TestOpenIDConnect(t *testing.T) {
	issuer := oidctest.Start(t)
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := apitest.Start(t, func(c *server.Config) {
		c.Authentication.ConfigFile = write("authentication.json", issuer.Config(t, "oidc:"))
		c.Console.OpenIDConnect = console.OIDCSettings{
			IssuerURL: issuer.URL, ClientID: "certplane", Scopes: []string{"groups"},
			CAFile: write("ca.crt", issuer.CA()), ClientSecretFile: write("secret", oidctest.Secret+"\n"),
		}
	})
	s.Grant(t, "oidc:ann", apitest.Allow("list get", "certificatesigningrequests"))
	b := open(t, s, s.Anonymous(t))
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // of the server and of the provider
	t.Cleanup(transport.CloseIdleConnections)
	b.Transport = transport

	page, _ := b.get(t, "login")
	wants(t, page, `href="/console/oidc/start"`)
	apitest.Eventually(t, "the API knows the provider", func() bool {
		page, _ := b.get(t, "oidc/start")
		return strings.Contains(page, "<h1>Start</h1>")
	})
	if page, code := b.get(t, "requests"); code != http.StatusOK {
		t.Errorf("%d\n%s", code, page)
	}
	if page, _ := b.get(t, "oidc/start?after=signers"); !strings.Contains(page, "<h1>Signers</h1>") {
		t.Errorf("the login does not lead to the page that was asked for:\n%s", page)
	}

	for what, change := range map[string]func(map[string]any){
		"another nonce":          func(claims map[string]any) { claims["nonce"] = "another" },
		"another audience":       func(claims map[string]any) { claims["aud"] = "another" },
		"a token that has ended": func(claims map[string]any) { claims["exp"] = 1 },
	} {
		issuer.Change = change
		fresh := open(t, s, s.Anonymous(t))
		fresh.Transport = transport
		if page, code := fresh.get(t, "oidc/start"); code < 400 || !strings.Contains(page, "Logging in at the provider") {
			t.Errorf("%s: %d\n%s", what, code, page)
		}
		if page, _ := fresh.get(t, "requests"); !strings.Contains(page, "<h1>Log in</h1>") {
			t.Errorf("%s: there is a session:\n%s", what, page)
		}
	}
	issuer.Change = nil
	other := open(t, s, s.Anonymous(t))
	other.Transport = transport
	stolen := callback(t, other)
	victim := open(t, s, s.Anonymous(t))
	victim.Transport = transport
	answer, err := victim.Get(stolen)
	if page, code := read(t, answer, err); code < 400 || !strings.Contains(page, "not begun in this browser") {
		t.Errorf("a login that another browser has begun: %d\n%s", code, page)
	}
}

// callback begins a login, and returns the address that the provider sends the browser
// back to.
func callback(t *testing.T, b browser) string {
	t.Helper()
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/callback") {
			return http.ErrUseLastResponse
		}
		return nil
	}
	answer, err := b.Get(b.base + "oidc/start")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.Header.Get("Location")
}

// Who has not logged in causes few calls to the provider at once, and waits for nobody else.
func TestProviderThatDoesNotAnswer(t *testing.T) {
	calls, release := make(chan string, 100), make(chan struct{})
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls <- r.URL.Path
		<-release
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	now := time.Now()
	sealer, err := console.NewSealer([]byte("a secret"), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	provider := &console.OIDC{IssuerURL: silent.URL, ClientID: "certplane", Connect: func(context.Context) (*http.Client, string, error) { return silent.Client(), "", nil }}
	h := console.New(console.Config{
		Base: "/console/", Now: func() time.Time { return now },
		User:  func(*http.Request) (console.Identity, error) { return console.Identity{}, console.ErrNobody },
		Login: &console.Login{API: &rest.Config{}, Sealer: sealer, OIDC: provider},
	})
	begin := func(ctx context.Context) <-chan int {
		answered := make(chan int, 1)
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "https://localhost/console/oidc/start", nil))
			answered <- w.Code
		}()
		return answered
	}
	ctx, leave := context.WithCancel(t.Context())
	var all []<-chan int
	for range 20 {
		all = append(all, begin(ctx))
	}
	<-calls // the provider is asked
	leave()
	for _, answered := range all { // who leaves does not wait
		if code := <-answered; code < 400 {
			t.Errorf("without an answer of the provider: %d", code)
		}
	}
	if n := len(calls); n > 0 {
		t.Errorf("%d more calls to the provider", n)
	}
}
