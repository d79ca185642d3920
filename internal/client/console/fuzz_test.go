package console

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// noAPI answers every call with 404, as an API without any resource.
type noAPI struct{}

func (noAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	return &http.Response{
		StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// No request makes a page fail, show text as HTML, or lead away from the console.
func FuzzPages(f *testing.F) {
	const mark = "<zz>"
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	sealer, err := NewSealer([]byte("secret"), now)
	if err != nil {
		f.Fatal(err)
	}
	session, err := sealer.Seal(forSession, "token user"+mark, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	login := &Login{API: &rest.Config{Host: "https://api.invalid", Transport: noAPI{}}, Sealer: sealer}
	h := New(Config{Base: "/console/", User: login.User, Login: login, Now: now, Version: "v0"})

	for _, page := range []string{
		"requests?state=all&namespace=a&signer=b&page=2", "requests?page=-1", "issued?expiring=7d&name=x" + mark, "issued?expiring=" + mark, "issued/" + mark,
		"login?after=%2f%2fevil.example", "login?after=" + mark, "object/secrets/ns/a", "object/certificaterequests.cert-manager.io/ns/" + mark + "/b", "events/x/y/z",
		"", "assets/../x", "%zz", "nothing" + mark,
	} {
		f.Add("GET", page, session, "")
		f.Add("GET", page, "", "")
	}
	f.Add("POST", "decide", session, "resource=certificatesigningrequests.certificates.k8s.io&name="+mark+"&uid=u&decision=approve&message="+mark)
	f.Add("POST", "decide", session, "%zz")
	f.Add("POST", "login", "", "token=abc&after=requests")
	f.Add("POST", "login", "", "token=a&after=https://evil.example/")
	f.Add("POST", "logout", session, "")
	f.Fuzz(func(t *testing.T, method, page, cookie, form string) {
		at, err := url.Parse("https://console.example/console/" + page)
		if err != nil || at.Host != "console.example" || strings.Contains(page, LivePath) || method != "GET" && method != "POST" {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r := (&http.Request{
			Method: method, URL: at, Host: at.Host, RequestURI: at.RequestURI(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: "192.0.2.1:1",
			Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}},
			Body:   io.NopCloser(strings.NewReader(form)),
		}).WithContext(ctx)
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: cookie})
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusBadGateway {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), mark) {
			t.Errorf("text becomes HTML: %s", w.Body)
		}
		if strings.Contains(w.Body.String(), session) {
			t.Error("a page shows the session")
		}
		if location := w.Header().Get("Location"); location != "" {
			to, err := at.Parse(location)
			if err != nil || to.Host != at.Host || to.Scheme != at.Scheme || !strings.HasPrefix(to.Path, "/console/") {
				t.Errorf("leads to %q", location)
			}
		}
	})
}

// Cookies of others open nothing.
func FuzzSealed(f *testing.F) {
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	sealer, err := NewSealer([]byte("secret"), now)
	if err != nil {
		f.Fatal(err)
	}
	good, err := sealer.Seal(forSession, "text", time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	other, err := sealer.Seal(forOIDC, "text", time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(other)
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, text string) {
		opened, err := sealer.Open(forSession, text)
		if same := strings.NewReplacer("\r", "", "\n", "").Replace(text) == good; (err == nil) != same {
			t.Errorf("opened %q: %v", opened, err)
		}
	})
}
