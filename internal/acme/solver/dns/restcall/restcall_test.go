package restcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

func client(t *testing.T, handler http.HandlerFunc, config Config) *Client {
	t.Helper()
	config.HTTP = providertest.Client(t, handler)
	config.Now = func() time.Time { return providertest.Now }
	return New(config)
}

func TestErrorText(t *testing.T) {
	tests := []struct {
		reason string
		text   string
		want   string
	}{
		{reason: "as it is", text: "zone not found", want: "zone not found"},
		{reason: "line breaks and escapes", text: "a\r\n\tb\x1b[31mc\x00", want: "a b [31mc"},
		{reason: "a secret", text: "token s3cr3t/+ is bad", want: "token [hidden] is bad"},
		{reason: "a secret with another at its beginning", text: "s3cr3t/+and-more", want: "[hidden]"},
		{reason: "a secret in a form", text: "token=s3cr3t%2F%2B", want: "token=[hidden]"},
		{reason: "the ID of a request in AWS's words", text: "api error AccessDenied, RequestID: 0a1b2c3d-1111, denied", want: "api error AccessDenied, denied"},
		{reason: "the ID of a request in quotes", text: `bad ("request_id": "abc-123")`, want: "bad"},
		{reason: "what Entra ID adds", text: "AADSTS7000215: Invalid client secret. Trace ID: 1f0c-aa Correlation ID: 77-bb Timestamp: 2026-11-23 12:00:00Z", want: "AADSTS7000215: Invalid client secret."},
		{reason: "what AWS encrypts differently each time", text: "not authorized. Encoded authorization failure message: 4GIOHlTkIaWHQD0Q0m6XSnuUMCm end", want: "not authorized. end"},
		{reason: "times", text: "Signature expired: 20261123T120000Z is earlier than 2026-11-23T12:15:00Z", want: "Signature expired: is earlier than"},
		{reason: "the local end of a connection", text: "read tcp 10.0.0.1:51234->10.0.0.2:443: connection reset", want: "read tcp 10.0.0.2:443: connection reset"},
		{reason: "IDs that stay the same", text: "subscription 0a1b2c3d-1111-2222-3333-444455556666 has no zone", want: "subscription 0a1b2c3d-1111-2222-3333-444455556666 has no zone"},
		{reason: "invalid UTF-8", text: "a\xffb", want: "ab"},
	}
	c := New(Config{HTTP: http.DefaultClient, Secrets: []string{"s3cr3t/+", "a", "s3cr3t/+and-more"}})
	for _, test := range tests {
		if got := c.Clean(test.text); got != test.want {
			t.Errorf("%s: %q, want %q", test.reason, got, test.want)
		}
	}
	if got := c.Clean(strings.Repeat("é", 1000)); len(got) > maxMessage || !strings.HasPrefix(got, "éé") {
		t.Errorf("a long text has %d bytes", len(got))
	}
}

func TestPath(t *testing.T) {
	tests := []struct{ segment, want string }{
		{"example.com", "/a/example.com"},
		{"..", "/a/%2E%2E"},
		{".", "/a/%2E"},
		{"b/../c", "/a/b%2F..%2Fc"},
		{"b?c#d", "/a/b%3Fc%23d"},
		{"*", "/a/%2A"},
	}
	for _, test := range tests {
		if got := Path("a", test.segment); got != test.want && got != strings.ReplaceAll(test.want, "%2A", "*") {
			t.Errorf("%q: %s, want %s", test.segment, got, test.want)
		}
	}
}

// Credentials in headers stay with the host for which they are.
func TestRedirectIsNotFollowed(t *testing.T) {
	calls := 0
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Redirect(w, r, "https://elsewhere.example.net/", http.StatusTemporaryRedirect)
	}, Config{})
	_, err := c.Call(t.Context(), Request{Method: http.MethodGet, URL: "https://api.example.com/"})
	if !HasStatus(err, http.StatusTemporaryRedirect) || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

func TestNoAnswer(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "half")
	}
	tests := []struct {
		reason  string
		handler http.HandlerFunc
		timeout time.Duration
		want    string
	}{
		{reason: "too slow", handler: hang, timeout: time.Millisecond, want: "calling api.example.com: no answer within 1ms"},
		{reason: "cut off", handler: cut, want: "calling api.example.com: unexpected EOF"},
	}
	for _, test := range tests {
		c := client(t, test.handler, Config{Timeout: test.timeout})
		_, err := c.Call(t.Context(), Request{Method: http.MethodGet, URL: "https://api.example.com/?key=secret"})
		if temporary := (*provider.TemporaryError)(nil); !errors.As(err, &temporary) || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.reason, err, test.want)
		}
	}
}

// The caller's time is over.
func TestDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	c := client(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, Config{})
	_, err := c.Call(ctx, Request{Method: http.MethodGet, URL: "https://api.example.com/"})
	if temporary := (*provider.TemporaryError)(nil); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &temporary) {
		t.Errorf("error is %v", err)
	}
}

// Tokens are used until a minute before their end, and only if they are any.
func TestBearer(t *testing.T) {
	tests := []struct {
		reason string
		token  Token
		err    error
		want   string
	}{
		{reason: "no token", token: Token{Lifetime: time.Hour}, want: "the answer has no access token"},
		{reason: "a newline", token: Token{Value: "a\nb"}, want: "the access token contains a control character"},
		{reason: "an error", err: errors.New("no"), want: "no"},
		{reason: "a token that the API quotes", token: Token{Value: "valid-token"}, want: "HTTP status 400 Bad Request: Bearer [hidden]"},
	}
	for _, test := range tests {
		bearer := NewBearer(func(context.Context) (Token, error) { return test.token, test.err }, func() time.Time { return providertest.Now })
		c := client(t, func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("Authorization"), http.StatusBadRequest)
		}, Config{Authorize: bearer.Authorize, Explain: func(_ int, body []byte) Fault { return Fault{Message: string(body)} }})
		if _, err := c.Call(t.Context(), Request{Method: http.MethodGet, URL: "https://api.example.com/"}); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.reason, err, test.want)
		}
	}
}

func TestAnswerSize(t *testing.T) {
	for size, want := range map[int]string{1 << 20: "<nil>", 1<<20 + 1: "the answer of api.example.com is larger than 1048576 bytes"} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", size)) }, Config{})
		_, err := c.Call(t.Context(), Request{Method: http.MethodGet, URL: "https://api.example.com/"})
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%d bytes: %s, want %s", size, got, want)
		}
	}
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := client(t, func(http.ResponseWriter, *http.Request) {}, Config{})
	_, err := c.Call(ctx, Request{Method: http.MethodGet, URL: "https://api.example.com/"})
	if temporary := (*provider.TemporaryError)(nil); !errors.Is(err, context.Canceled) || errors.As(err, &temporary) {
		t.Errorf("error is %v", err)
	}
}

func TestCheckHeader(t *testing.T) {
	for value, valid := range map[string]bool{"abc": true, "a b\tc": true, "a\n": false, "a\r": false, "a\x00": false, "a\x7f": false, "": true} {
		if err := CheckHeader(value); (err == nil) != valid {
			t.Errorf("%q: %v", value, err)
		}
	}
}
