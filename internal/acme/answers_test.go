package acme_test

import (
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
)

// A chain is what a server sends, if it consists of certificates.
func TestChains(t *testing.T) {
	s := acmetest.Start(t, acmetest.Options{})
	c := newClient(t, newPool(t, nil), s)
	root := string(s.Roots())
	for _, test := range []struct {
		reason, body string
		length       int
	}{
		{"one", root, 1},
		{"text between", "x\n" + root + "y\n" + root, 2},
		{"a long one", strings.Repeat(root, 32), 32},
		{"too long", strings.Repeat(root, 33), 0},
		{"none", "x", 0},
		{"a key", root + "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", 0},
		{"no certificate in it", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0},
		{"larger than 16 MiB", root + strings.Repeat("x", 16<<20), 0},
	} {
		s.Change(func(o *acmetest.Options) {
			o.Hook = on(acmetest.Certificate, acmetest.Reply{Status: 200, Body: test.body, Header: http.Header{"Link": {
				`</certificate/9/1>;rel="alternate", <https://ca.example.com/2>; title="x"; rel=alternate`, `<http://ca.example.com/3>;rel="alternate"`, `</index>;rel="index"`,
			}}})
		})
		chain, alternates, err := c.Certificate(t.Context(), strings.TrimSuffix(s.Directory(), "/directory")+"/certificate/9")
		if len(chain) != test.length || (err == nil) != (test.length > 0) {
			t.Errorf("%s: %d certificates, %v", test.reason, len(chain), err)
		}
		if want := []string{strings.TrimSuffix(s.Directory(), "/directory") + "/certificate/9/1", "https://ca.example.com/2"}; err == nil && cmp.Diff(want, alternates) != "" {
			t.Errorf("%s: %q", test.reason, alternates)
		}
	}
}

// Tokens become parts of paths.
func TestTokens(t *testing.T) {
	s := acmetest.Start(t, acmetest.Options{})
	c := newClient(t, newPool(t, nil), s)
	url := strings.TrimSuffix(s.Directory(), "/directory") + "/authorization/1"
	for token, ok := range map[string]bool{"abc-_019": true, "": true, "../x": false, "a b": false, "a\nb": false} {
		body := `{"status":"pending","challenges":[{"type":"http-01","url":"` + url + `","token":"` + strings.ReplaceAll(token, "\n", `\n`) + `"}]}`
		s.Change(func(o *acmetest.Options) {
			o.Hook = on(acmetest.Authorization, acmetest.Reply{Status: 200, Body: body})
		})
		if _, err := c.Authorization(t.Context(), url); (err == nil) != ok {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// Directories that are none, and those that lead elsewhere, say so.
func TestDirectories(t *testing.T) {
	for reason, body := range map[string]string{
		"a page": "<html>", "nothing in it": "{}", "another scheme": `{"newNonce":"ftp://a/b","newAccount":"https://a/b","newOrder":"https://a/b"}`,
		"without TLS": `{"newNonce":"https://a/b","newAccount":"http://a/b","newOrder":"https://a/b"}`,
	} {
		s := acmetest.Start(t, acmetest.Options{Hook: on(acmetest.Directory, acmetest.Reply{Status: 200, Body: body})})
		if _, err := unregistered(t, newPool(t, nil), s, newKey(t)).FindAccount(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the directory ") {
			t.Errorf("%s: %v", reason, err)
		}
	}
	p := newPool(t, nil)
	for _, url := range []string{"", "ca.example.com", "file:///x", "https://", "https://user@ca.example.com/"} {
		if _, err := p.Client(acme.Config{Directory: url, Key: newKey(t)}); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
	_, ed, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Client(acme.Config{Directory: "https://ca.example.com/", Key: ed}); err == nil {
		t.Error("an Ed25519 key is accepted")
	}
	if _, err := p.Client(acme.Config{Directory: "https://ca.example.com/", Key: newKey(t), CABundle: []byte("x")}); err == nil {
		t.Error("a bundle without certificates is accepted")
	}
}

// A directory is read once an hour, and not shared with those who trust other
// roots.
func TestDirectoryCache(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	s := acmetest.Start(t, acmetest.Options{})
	p := newPool(t, func(cfg *acme.PoolConfig) { cfg.Clock = clock })
	read := func(wantRequests int) {
		t.Helper()
		if _, err := unregistered(t, p, s, newKey(t)).Directory(t.Context()); err != nil || s.Count(acmetest.Directory) != wantRequests {
			t.Errorf("%d requests, want %d: %v", s.Count(acmetest.Directory), wantRequests, err)
		}
	}
	read(1)
	read(1)
	clock.SetTime(start.Add(time.Hour))
	read(2)
	c, err := p.Client(acme.Config{Directory: s.Directory(), Key: newKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Directory(t.Context()); err == nil || !strings.Contains(err.Error(), "x509: ") {
		t.Errorf("without the roots: %v", err)
	}
}

// Signed requests are never repeated elsewhere; what is only read may move, but
// not to where there is no TLS.
func TestRedirects(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for to, ok := range map[string]bool{"/moved": true, plain.URL: false, "/directory": false} {
		s := acmetest.Start(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
			switch {
			case c.Kind == acmetest.Directory:
				return &acmetest.Reply{Status: 302, Header: http.Header{"Location": {to}}}
			case strings.HasSuffix(c.URL, "/moved"):
				return &acmetest.Reply{Status: 200, Body: `{"newNonce":"https://a/b","newAccount":"https://a/b","newOrder":"https://a/b"}`}
			}
			return nil
		}})
		if _, err := unregistered(t, newPool(t, nil), s, newKey(t)).Directory(t.Context()); (err == nil) != ok {
			t.Errorf("%s: %v", to, err)
		}
	}
}
