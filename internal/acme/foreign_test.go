package acme_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme"
)

// Errors are shown in the status of issuers, which their authors read: nothing of what
// listens at an address that is no ACME server is in them.
func TestErrorsShowNoForeignAnswers(t *testing.T) {
	banner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer banner.Close() //nolint:errcheck // a test
	go func() {
		for {
			c, err := banner.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprint(c, "SSH-2.0-secret\r\n")
			_ = c.Close()
		}
	}()
	answer := func(media, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for reason, tc := range map[string]struct{ url, want string }{
		"another protocol":            {"http://" + banner.Addr().String(), "the answer is not HTTP"},
		"a problem by http":           {answer("application/problem+json", `{"type":"urn:ietf:params:acme:error:unauthorized","detail":"secret"}`), "unauthorized"},
		"a foreign problem by http":   {answer("application/problem+json", `{"type":"https://secret","title":"secret"}`), "403"},
		"a media type that is a text": {answer("secret/secret", "secret"), "data of another media type of 6 bytes"},
	} {
		pool := newPool(t, nil)
		c, err := pool.Client(acme.Config{Directory: tc.url + "/dir", Key: newKey(t)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Directory(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "SSH") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
