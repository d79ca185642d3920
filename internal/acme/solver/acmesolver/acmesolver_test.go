package acmesolver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver/acmesolver"
)

const answerPath = "/.well-known/acme-challenge/tok"

func TestHandler(t *testing.T) {
	name := acmesolver.Challenge{Domain: "a.example.com", Token: "tok", Key: "tok.thumbprint"}
	ipv6 := acmesolver.Challenge{Domain: "2001:db8::1", Token: "tok", Key: "tok.thumbprint"}
	ipv4 := acmesolver.Challenge{Domain: "192.0.2.1", Token: "tok", Key: "tok.thumbprint"}
	tests := []struct {
		ch                 acmesolver.Challenge
		method, host, path string
		want               int
		reason             string
	}{
		{name, "GET", "a.example.com", answerPath, 200, "as a CA asks"},
		{name, "GET", "a.example.com:80", answerPath, 200, "the port does not count"},
		{name, "GET", "A.Example.COM", answerPath, 200, "names have no case"},
		{name, "GET", "b.example.com", answerPath, 404, "it answers for its name alone"},
		{name, "GET", "a.example.com.evil.example", answerPath, 404, "it answers for its name alone"},
		{name, "GET", "a.example.com", "/.well-known/acme-challenge/other", 404, "another challenge"},
		{name, "GET", "a.example.com", "/.well-known/acme-challenge/TOK", 404, "tokens have a case"},
		{name, "GET", "a.example.com", "/.well-known/acme-challenge/", 404, "no token"},
		{name, "GET", "a.example.com", "/.well-known/acme-challenge/tok/", 404, "a directory below"},
		{name, "GET", "a.example.com", "/x" + answerPath, 404, "another directory"},
		{name, "GET", "a.example.com", "/.well-known%2Facme-challenge/tok", 404, "the escaped form counts"},
		{name, "GET", "a.example.com", "/tok", 404, "another directory"},
		{name, "POST", "a.example.com", answerPath, 200, "the method does not count"},
		{name, "GET", "10.1.2.3:8089", "/", 200, "probes ask by the address of the pod"},
		{name, "GET", "10.1.2.3:8089", "/healthz", 200, "probes ask by the address of the pod"},
		{name, "GET", "a.example.com", "/healthz/x", 404, "not the health path"},
		{ipv6, "GET", "[2001:db8::1]", answerPath, 200, "brackets do not count"},
		{ipv6, "GET", "[2001:DB8::1]:80", answerPath, 200, "brackets, port and case do not count"},
		{ipv6, "GET", "[2001:db8::2]:80", answerPath, 404, "another address"},
		{ipv4, "GET", "192.0.2.1:80", answerPath, 200, "an IPv4 address"},
	}
	for _, test := range tests {
		server := httptest.NewServer(acmesolver.Handler(test.ch))
		status, body, header := ask(t, test.method, server.URL+test.path, test.host)
		server.Close()
		isAnswer := test.want == 200 && strings.HasSuffix(test.path, "/tok")
		if status != test.want || isAnswer != (body == "tok.thumbprint") {
			t.Errorf("%s %q %s: got %d %q, want %d: %s", test.method, test.host, test.path, status, body, test.want, test.reason)
		}
		if test.want == 200 && !isAnswer && body != "" {
			t.Errorf("%s: the body is %q, want it empty", test.path, body)
		}
		if isAnswer {
			got := []string{header.Get("Cache-Control"), header.Get("Content-Type")}
			if diff := cmp.Diff([]string{"no-cache, no-store, must-revalidate", "text/plain; charset=utf-8"}, got); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
		}
	}
}

// Run serves until it is stopped, and then ends without an error.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- acmesolver.Run(ctx, acmesolver.Options{
			Challenge: acmesolver.Challenge{Domain: "a.example.com", Token: "tok", Key: "tok.thumbprint"},
			Listening: func(address net.Addr) { listening <- address },
		})
	}()
	var port int
	select {
	case address := <-listening:
		port = address.(*net.TCPAddr).Port
	case err := <-ended:
		t.Fatal(err)
	}
	if status, body, _ := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d%s", port, answerPath), "a.example.com"); status != 200 || body != "tok.thumbprint" {
		t.Errorf("got %d %q", status, body)
	}
	if err := acmesolver.Run(ctx, acmesolver.Options{ListenPort: port}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("listening on port %d", port)) {
		t.Errorf("got %v, want an error that names the port in use", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// ask sends a request with this Host, and returns the answer.
func ask(t *testing.T, method, url, host string) (status int, body string, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data), response.Header
}
