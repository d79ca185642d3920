package responder

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
)

// Whatever a client sends, only what is exactly the path of a token counts as
// one, and only what names the host counts as it.
func FuzzQuestion(f *testing.F) {
	for _, path := range []string{selfcheck.Path + "abc", selfcheck.Path + "a%2Fb", selfcheck.Path, "/%2ewell-known/acme-challenge/abc", selfcheck.Path + "a/b", "*", "//a"} {
		f.Add(path, "a.example.com:80", "a.example.com, b", "192.0.2.1")
	}
	f.Add(selfcheck.Path+"abc", "[::1]:80", "", ":::")
	f.Add(selfcheck.Path+"abc", "[", ",,", "[::1%eth0]:1")
	f.Fuzz(func(t *testing.T, path, host, forwarded, client string) {
		if token, ok := tokenOf(path); ok {
			if path != selfcheck.Path+token || strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" || len(token) > maxToken {
				t.Errorf("%q has the token %q", path, token)
			}
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.RemoteAddr = host, client
		r.Header["X-Forwarded-Host"] = []string{forwarded}
		const name = "a.example.com"
		direct := source{}.forHost(r, name)
		if direct && !strings.HasPrefix(strings.ToLower(host), name) && !strings.HasPrefix(strings.ToLower(host), "["+name) {
			t.Errorf("%q is for %s", host, name)
		}
		if (source{trusted: true}).forHost(r, name) && !direct && !strings.Contains(strings.ToLower(forwarded), name) {
			t.Errorf("%q, %q is for %s", host, forwarded, name)
		}
		if s := sourceOf(r, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); s.trusted && !strings.Contains(client, "10.") && !strings.Contains(strings.ToLower(client), "ffff:") {
			t.Errorf("%q is trusted", client)
		}
	})
}

func TestHosts(t *testing.T) {
	for _, tc := range []struct{ header, want string }{
		{"a.example.com", "a.example.com"},
		{"A.example.com:8080", "a.example.com"},
		{"a.example.com.:80", "a.example.com"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"[2001:DB8::1]:80", "2001:db8::1"},
		{"192.0.2.1:80", "192.0.2.1"},
		{"", ""},
	} {
		if got := hostOf(tc.header); got != tc.want {
			t.Errorf("%q is %q, want %q", tc.header, got, tc.want)
		}
	}
}

// Of a list, only what the nearest proxy has added counts: clients can send the
// rest.
func TestLast(t *testing.T) {
	for _, tc := range []struct {
		reason string
		values []string
		want   string
	}{
		{"no header", nil, ""},
		{"one value", []string{"a"}, "a"},
		{"a list", []string{"a, b, c"}, "c"},
		{"several headers", []string{"a, b", "c, d ,e "}, "e"},
		{"nothing at the end", []string{"a,"}, ""},
	} {
		if got := last(http.Header{"X-Forwarded-Host": tc.values}, "X-Forwarded-Host"); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
}
