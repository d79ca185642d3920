package authn_test

import (
	"crypto"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/datadir"
)

func newRoot(t *testing.T, name string) *pki.Authority {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// certify returns a client certificate and its key.
func certify(t *testing.T, ca *pki.Authority, name string, groups ...string) ([]byte, crypto.Signer) {
	t.Helper()
	key := apitest.NewKey(t)
	chain, err := ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: name, Organizations: groups}, key.Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(chain...), key
}

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func bundle(cas ...*pki.Authority) []byte {
	var all []byte
	for _, ca := range cas {
		all = append(all, pki.EncodeCertificates(ca.Certificate())...)
	}
	return all
}

// withHeaders adds headers to every request.
func withHeaders(cfg *rest.Config, headers http.Header) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			for name, values := range headers {
				r.Header[name] = values
			}
			return next.RoundTrip(r)
		})
	})
	return cfg
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRequestHeaders(t *testing.T) {
	proxyCA := newRoot(t, "proxies")
	trusting := apitest.Start(t, func(c *server.Config) {
		c.Authentication.RequestHeader.CAFile = writeFile(t, bundle(proxyCA))
		c.Authentication.RequestHeader.AllowedNames = []string{"front-proxy"}
	})
	headers := http.Header{
		"X-Remote-User": {"ann"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"staff", "ops"}, "X-Remote-Extra-Team": {"blue"},
	}
	login := func(ca *pki.Authority, name string) *rest.Config {
		cert, key := certify(t, ca, name)
		return trusting.LoginWith(t, cert, key)
	}
	tests := []struct {
		reason string
		cfg    *rest.Config
		want   string // the user, or "" for 401
	}{
		{"the proxy", login(proxyCA, "front-proxy"), "ann"},
		{"another certificate of its CA", login(proxyCA, "somebody"), ""},
		{"a user with the proxy's name", login(trusting.ClientCA(t), "front-proxy"), "front-proxy"},
		{"a certificate of nobody", login(newRoot(t, "strangers"), "front-proxy"), ""},
		{"no certificate", trusting.Anonymous(t), ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			user, err := whoami(t, withHeaders(tt.cfg, headers))
			if tt.want == "" && !apierrors.IsUnauthorized(err) {
				t.Errorf("the user is %q, error %v, want 401", user.Username, err)
			}
			if tt.want != "" && (err != nil || user.Username != tt.want) {
				t.Errorf("the user is %q, error %v, want %q", user.Username, err, tt.want)
			}
		})
	}

	user, err := whoami(t, withHeaders(login(proxyCA, "front-proxy"), headers))
	if err != nil {
		t.Fatal(err)
	}
	want := authenticationv1.UserInfo{
		Username: "ann", UID: "7", Groups: []string{"staff", "ops", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{"team": {"blue"}},
	}
	if diff := cmp.Diff(want, user); diff != "" {
		t.Errorf("the proxy's user (-want +got):\n%s", diff)
	}
	// The proxy without a user is not authenticated: its certificate is only
	// for proxying.
	if _, err := whoami(t, login(proxyCA, "front-proxy")); !apierrors.IsUnauthorized(err) {
		t.Errorf("the proxy itself is answered with %v", err)
	}
}

func TestRequestHeadersWithoutProxy(t *testing.T) {
	s := common.Start(t)
	headers := http.Header{"X-Remote-User": {"certplane:admin"}, "X-Remote-Group": {"system:masters"}}
	user, err := whoami(t, withHeaders(s.Login(t, "ann"), headers))
	if err != nil || user.Username != "ann" || len(user.Groups) != 1 {
		t.Errorf("the user is %+v, error %v", user, err)
	}
	if _, err := whoami(t, withHeaders(s.Anonymous(t), headers)); !apierrors.IsUnauthorized(err) {
		t.Errorf("without a certificate the answer is %v", err)
	}
}

func TestClientCAFilesAreReloaded(t *testing.T) {
	first, second, third := newRoot(t, "first"), newRoot(t, "second"), newRoot(t, "third")
	file := writeFile(t, bundle(first))
	s := apitest.Start(t, func(c *server.Config) { c.Authentication.ClientCAFile = file })
	honoured := func(ca *pki.Authority) bool {
		cert, key := certify(t, ca, "ann")
		_, err := whoami(t, s.LoginWith(t, cert, key))
		return err == nil
	}
	if !honoured(first) || honoured(second) || honoured(third) {
		t.Fatalf("honoured are first %v, second %v, third %v", honoured(first), honoured(second), honoured(third))
	}
	if err := os.WriteFile(file, bundle(second), 0o600); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the second CA is honoured", func() bool { return honoured(second) })
	if honoured(first) {
		t.Error("the first CA is still honoured")
	}

	// The same for the server's own CA.
	login := s.Login(t, "ann")
	own := filepath.Join(datadir.Dir(s.Config.DataDir).PKI(), "client-ca-root.crt")
	if err := os.WriteFile(own, append(pki.EncodeCertificates(s.ClientRoot(t)), bundle(third)...), 0o600); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the third CA is honoured", func() bool { return honoured(third) })
	if _, err := whoami(t, login); err != nil {
		t.Errorf("the own CA is not honoured any more: %v", err)
	}
}
