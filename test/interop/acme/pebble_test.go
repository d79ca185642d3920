package acme

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// pebbleOptions are the knobs of Pebble.
type pebbleOptions struct {
	// httpPort and tlsPort are where it validates challenges.
	httpPort, tlsPort int
	// resolver is the DNS server that it asks, as host:port.
	resolver string
	// externalAccounts are the keys of external accounts; if there are any, they
	// are required.
	externalAccounts map[string]string
	blocked          []string
	profiles         map[string]ca.Profile
	alternateRoots   int
	// retryAfter is for how many seconds it sends clients away; zero means 1.
	retryAfter int
	// wrap, if not nil, is put around its handler.
	wrap func(http.Handler) http.Handler
}

// pebble is a running ACME server.
type pebble struct {
	// directory is the address of Pebble's directory, and bundle the roots of its HTTPS
	// certificate.
	directory string
	bundle    []byte
	// management is its management interface.
	management http.Handler
}

// startPebble runs Pebble until the test ends. It validates without the pauses with which
// it normally tests that clients wait.
func startPebble(t testing.TB, o pebbleOptions) *pebble {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	logger := log.New(testWriter{t}, "pebble: ", 0)
	if testing.Short() {
		logger.SetOutput(io.Discard)
	}
	store := db.NewMemoryStore()
	for id, key := range o.externalAccounts {
		if err := store.AddExternalAccountKeyByID(id, key); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range o.blocked {
		if err := store.AddBlockedDomain(name); err != nil {
			t.Fatal(err)
		}
	}
	if o.profiles == nil {
		o.profiles = map[string]ca.Profile{"default": {Description: "The default profile"}}
	}
	authority := ca.New(logger, store, "", "ecdsa", o.alternateRoots, 1, o.profiles)
	validation := va.New(logger, o.httpPort, o.tlsPort, false, o.resolver, store)
	front := wfe.New(logger, store, validation, authority, []string{"pebble.example"}, false, len(o.externalAccounts) > 0, max(1, o.retryAfter), max(1, o.retryAfter))
	handler := front.Handler()
	if o.wrap != nil {
		handler = o.wrap(handler)
	}
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return &pebble{
		directory:  server.URL + wfe.DirectoryPath,
		bundle:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		management: front.ManagementHandler(),
	}
}

// testWriter writes what a server logs to the log of a test, while it runs.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", line)
	}
	return len(line), nil
}

// startDNS runs a DNS server that says that every name is on this host, until
// the test ends. Its records can be changed.
func startDNS(t testing.TB) (server *challtestsrv.ChallSrv, address string) {
	t.Helper()
	port := freePort(t)
	address = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	server, err := challtestsrv.New(challtestsrv.Config{DNSAddrs: []string{address}, Log: log.New(testWriter{t}, "dns: ", 0)})
	if err != nil {
		t.Fatal(err)
	}
	server.SetDefaultDNSIPv4("127.0.0.1")
	server.SetDefaultDNSIPv6("")
	go server.Run()
	t.Cleanup(server.Shutdown)
	return server, address
}

// freePort returns a TCP port of this host that nothing uses now.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// timeout bounds each wait for an answer.
const timeout = 2 * time.Minute

// eventually waits for what a server does on its own.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if holds() {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the test ended before %s", what)
		}
	}
	t.Fatalf("gave up waiting until %s", what)
}
