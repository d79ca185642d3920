package console

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/pki"
)

// What was sealed opens for its purpose only, until its end, and only with the secret.
func TestSealer(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	newSealer := func(secret string) *Sealer {
		s, err := NewSealer([]byte(secret), clock)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := newSealer("a secret of the server")
	text, err := s.Seal(forSession, "a token", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := newSealer("a secret of the server").Open(forSession, text); got != "a token" || err != nil {
		t.Errorf("another process with the secret opens %q, %v", got, err)
	}
	if again, _ := s.Seal(forSession, "a token", time.Hour); again == text || strings.Contains(text, "token") {
		t.Errorf("%q, and then %q", text, again)
	}
	for what, open := range map[string]func() (string, error){
		"another purpose": func() (string, error) { return s.Open(forOIDC, text) },
		"another secret":  func() (string, error) { return newSealer("b").Open(forSession, text) },
		"a changed text":  func() (string, error) { return s.Open(forSession, "A"+text[1:]) },
		"a part of it":    func() (string, error) { return s.Open(forSession, text[:10]) },
		"no base64":       func() (string, error) { return s.Open(forSession, "%") },
	} {
		if got, err := open(); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
	now = now.Add(time.Hour)
	if got, err := s.Open(forSession, text); err == nil {
		t.Errorf("after its end: %q", got)
	}
	if _, err := s.Seal(forSession, strings.Repeat("a", maxCookie), time.Hour); err == nil || !strings.Contains(err.Error(), "certplane console") {
		t.Errorf("of a token that no cookie holds: %v", err)
	}
}

// Sessions of two certificates are those of two users: nothing is kept for both.
func TestSessionsOfCertificates(t *testing.T) {
	now := time.Now()
	sealer, err := NewSealer([]byte("a secret"), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	l := &Login{API: &rest.Config{}, Sealer: sealer}
	seen := map[any]string{}
	for _, name := range []string{"bob", "eve"} {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		c := credentials{chain: []*x509.Certificate{root.Certificate()}}
		text, err := c.seal(sealer, name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "https://localhost/console/", nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: text})
		who, err := l.User(r)
		if err != nil || who.Name != name || who.API.BearerToken != "" {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
		if other, ok := seen[who.Credentials]; ok {
			t.Errorf("%s has the credentials of %s", name, other)
		}
		seen[who.Credentials] = name
		if left := c.lifetime(root.Certificate().NotAfter.Add(-time.Minute)); left != time.Minute {
			t.Errorf("a session lasts %s, and its certificate a minute", left)
		}
	}
}
