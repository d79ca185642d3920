package console

import (
	"strings"
	"testing"
	"time"
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
