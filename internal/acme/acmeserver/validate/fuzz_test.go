package validate

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

func FuzzRedirect(f *testing.F) {
	for _, location := range []string{"/ok", "http://b.example/", "https://[::1]:443/", "//b.example:80", "http://a@b/", "http://127.1/", "http:b", "?x", "http://[fe80::1%25e]/"} {
		f.Add(location)
	}
	ports := []uint16{80, 443}
	f.Fuzz(func(t *testing.T, location string) {
		from := mustParse(t, "http://a.example/.well-known/acme-challenge/x")
		to, failed := redirect(from, &http.Response{StatusCode: 302, Header: http.Header{"Location": {location}}}, ports)
		if failed != nil {
			if !failed.final || failed.kind != rfc8555.ProblemConnection {
				t.Errorf("%+v", failed)
			}
			return
		}
		host := to.Hostname()
		_, err := netip.ParseAddr(host)
		if to.User != nil || to.Scheme != "http" && to.Scheme != "https" || err != nil && !hosts.MatchString(host) || strings.ContainsAny(to.Host, "@%/\\ \r\n") {
			t.Errorf("%q leads to %q", location, to)
		}
		if port := portOf(to); port != 80 && port != 443 || len(to.String()) > maxURL {
			t.Errorf("%q leads to port %d, %d bytes", location, port, len(to.String()))
		}
	})
}

func mustParse(t testing.TB, text string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func FuzzTXT(f *testing.F) {
	f.Add(value, key)
	f.Add("x\n"+value, key)
	f.Add("", "")
	f.Fuzz(func(t *testing.T, records, authorization string) {
		values := strings.Split(records, "\n")
		got, ok := matchTXT(values, authorization)
		if ok && (len(got) != 43 || !strings.Contains(records, got)) {
			t.Errorf("%q matches", got)
		}
		if _, with := matchTXT(append(values, value), key); !with {
			t.Error("the value is not found behind others")
		}
		if text := shown(values[0]); len(text) > 2+10*maxShown || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("shown as %s", text)
		}
	})
}
