package responder_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/responder"
	"github.com/certplane/certplane/internal/acme/solver/solvertest"
)

// missed asks for a token that nobody knows, and lets the time pass.
func (f *fixture) missed(t *testing.T, wait time.Duration) string {
	t.Helper()
	answered := make(chan string, 1)
	go func() {
		_, body := ask(t, f.address, get(path, "a.example.com"))
		answered <- body
	}()
	solvertest.Eventually(t, "the question waits", f.clock.HasWaiters)
	f.clock.Step(wait - time.Millisecond)
	select {
	case body := <-answered:
		t.Fatalf("it waited too short: %q", body)
	default:
	}
	f.clock.Step(time.Millisecond)
	return <-answered
}

// A question can reach a server before its watch has the challenge.
func TestLateWatch(t *testing.T) {
	f := start(t)
	answered := make(chan string, 1)
	go func() {
		_, body := ask(t, f.address, get(path, "a.example.com"))
		answered <- body
	}()
	solvertest.Eventually(t, "the question waits", f.clock.HasWaiters)
	unrelated := challenge("b.example.com")
	unrelated.UID, unrelated.Spec.Token = "2", "other"
	f.index.Set(unrelated)
	f.index.Set(challenge("a.example.com"))
	if body := <-answered; body != key {
		t.Errorf("answered %q", body)
	}
}

// Questions with tokens that do not exist cannot make all others wait.
func TestWaitsAreBounded(t *testing.T) {
	f := start(t, func(s *responder.Settings) { s.TrustedProxies = []string{"127.0.0.0/8"} })
	from := func(address string) string {
		return get(path, "a.example.com", "X-Forwarded-For: 203.0.113.9, "+address)
	}
	answered := make(chan int, 100)
	question := func(address string) {
		go func() {
			answer, _ := ask(t, f.address, from(address))
			answered <- answer.StatusCode
		}()
	}
	for n := range 16 {
		question("192.0.2.1")
		solvertest.Eventually(t, "the question waits", func() bool { return f.clock.Waiters() == n+1 })
	}
	if answer, _ := ask(t, f.address, from("192.0.2.2")); answer.StatusCode != http.StatusNotFound {
		t.Errorf("one more of the same network: %s", answer.Status)
	}
	for n := 16; n < 64; n++ {
		question(netip.AddrFrom4([4]byte{198, 51, byte(n), 1}).String())
		solvertest.Eventually(t, "the question waits", func() bool { return f.clock.Waiters() == n+1 })
	}
	if answer, _ := ask(t, f.address, from("203.0.113.1")); answer.StatusCode != http.StatusNotFound {
		t.Errorf("one more: %s", answer.Status)
	}
	f.clock.Step(2 * time.Second)
	for range 64 {
		if status := <-answered; status != http.StatusNotFound {
			t.Errorf("status %d", status)
		}
	}
	question("192.0.2.1")
	solvertest.Eventually(t, "there is room again", f.clock.HasWaiters)
	f.clock.Step(2 * time.Second)
	<-answered
}

// proxyTo is a web server that passes requests on, with or without the Host.
func proxyTo(t *testing.T, dial func(context.Context) (net.Conn, error), keepHost bool) string {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: "backend.internal:8089"}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			if keepHost {
				r.Out.Host = r.In.Host
			}
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, DisableKeepAlives: true},
	})
	t.Cleanup(proxy.Close)
	return proxy.Listener.Addr().String()
}

func TestBehindProxy(t *testing.T) {
	path1 := filepath.Join(t.TempDir(), "s")
	for _, tc := range []struct {
		reason   string
		change   func(*responder.Settings)
		keepHost bool
		status   int
	}{
		{"the Host is kept", func(*responder.Settings) {}, true, 200},
		{"the Host is replaced", func(*responder.Settings) {}, false, 404},
		{"the Host is replaced by a trusted proxy", func(s *responder.Settings) { s.TrustedProxies = []string{"127.0.0.1/32"} }, false, 200},
		{"another proxy is trusted", func(s *responder.Settings) { s.TrustedProxies = []string{"192.0.2.0/24"} }, false, 404},
		{"any Host is answered", func(s *responder.Settings) { s.AnyHost = true }, false, 200},
		{"a Unix socket", func(s *responder.Settings) { s.Listen = []string{"unix:" + path1} }, false, 200},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := start(t, tc.change)
			f.index.Set(challenge("a.example.com"))
			proxy := proxyTo(t, func(ctx context.Context) (net.Conn, error) {
				if strings.HasPrefix(tc.reason, "a Unix") {
					return (&net.Dialer{}).DialContext(ctx, "unix", path1)
				}
				return (&net.Dialer{}).DialContext(ctx, "tcp", f.address)
			}, tc.keepHost)
			answer, body := ask(t, proxy, get(path, "a.example.com", "X-Forwarded-Host: forged.example.com"))
			if answer.StatusCode != tc.status || tc.status == 200 && body != key {
				t.Errorf("%s: %q", answer.Status, body)
			}
		})
	}
}
