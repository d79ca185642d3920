package acme

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// FuzzAnswers reads what a CA of others answers.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"newNonce":"https://ca.example/n","newAccount":"https://ca.example/a","newOrder":"https://ca.example/o","meta":{"termsOfService":"x"}}`, `<https://ca.example/1>;rel="alternate"`, "120")
	f.Add(`{"type":"urn:ietf:params:acme:error:rateLimited","detail":"x","subproblems":[{"identifier":{"type":"dns","value":"a"}}]}`, `<//evil.example/>;rel=alternate, <x>;rel="up alternate"`, "Sat, 28 Nov 2026 19:12:00 GMT")
	f.Add("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE----------BEGIN CERTIFICATE-----", "<", "-1")
	base, err := url.Parse("https://ca.example/acme/cert/1")
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	f.Fuzz(func(t *testing.T, body, link, retry string) {
		s := &server{url: "https://ca.example/directory"}
		header := http.Header{"Link": {link}, "Retry-After": {retry}, "Content-Type": {"application/problem+json"}}
		if d, err := s.parseDirectory([]byte(body)); err == nil {
			for _, at := range []string{d.NewNonce, d.NewAccount, d.NewOrder} {
				if s.checkURL(at) != nil {
					t.Errorf("directory leads to %q", at)
				}
			}
		}
		got := answer{header: header, body: []byte(body), url: base.String(), at: now}
		if chain, err := chainOf(got); err == nil && (len(chain) == 0 || len(chain) > maxChain) {
			t.Errorf("chain of %d", len(chain))
		}
		if found := links(header, "alternate", base); len(found) > maxLinks {
			t.Errorf("%d links", len(found))
		}
		p := problemOf(&http.Response{StatusCode: 429, Header: header, Request: &http.Request{URL: base}}, []byte(body), now)
		if p == nil || p.Status != 429 || p.Error() == "" {
			t.Errorf("problem %+v", p)
		}
	})
}
