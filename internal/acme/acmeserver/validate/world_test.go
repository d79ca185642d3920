package validate

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeaddress"
)

const (
	token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	key   = token + ".nP1qzpXGymHBrUEepNY9HCsQk7K8KhOypzEt62jcerQ"
	// secret is in bodies and headers of servers, of which clients must not learn.
	secret = "what only this server knows"
)

var now = time.Unix(1e9, 0)

// challenge returns one for a name or an address.
func challenge(kind, of string) Challenge {
	c := Challenge{Type: kind, Token: token, KeyAuthorization: key, Identifier: rfc8555.Identifier{Type: rfc8555.IdentifierDNS, Value: of}}
	if _, err := netip.ParseAddr(of); err == nil {
		c.Identifier.Type = rfc8555.IdentifierIP
	}
	return c
}

// world is a network on loopback.
type world struct {
	names *dnstest.Server
	cfg   Config

	mu      sync.Mutex // guards dials
	dials   []netip.AddrPort
	address netip.AddrPort // of the site, if there is one
}

// newWorld returns one with these DNS records, of which loopback is permitted.
func newWorld(t testing.TB, records ...string) *world {
	t.Helper()
	w := &world{names: dnstest.Start(t, dnstest.Options{}, records...), cfg: DefaultConfig()}
	w.cfg.Clock = clocktesting.NewFakePassiveClock(now)
	w.cfg.DNS.Servers = []string{w.names.Addr}
	w.cfg.Addresses = acmeaddress.AddressRules{AllowLocal: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	w.cfg.dialled = func(to netip.AddrPort) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dials = append(w.dials, to)
	}
	return w
}

// dialled returns what was dialled since the last call.
func (w *world) dialled() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	dials := w.dials
	w.dials = nil
	return dials
}

// permits has exactly these networks permitted.
func (w *world) permits(networks ...string) {
	w.cfg.Addresses.Allow = nil
	for _, network := range networks {
		w.cfg.Addresses.Allow = append(w.cfg.Addresses.Allow, netip.MustParsePrefix(network))
	}
}

// site serves http-01 at an address with any port, at which validations look.
func (w *world) site(t testing.TB, address string, handler http.HandlerFunc) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(server.Close)
	w.address = netip.MustParseAddrPort(listener.Addr().String())
	w.cfg.HTTPPorts, w.cfg.RedirectPorts = []uint16{w.address.Port()}, []uint16{80, 443, w.address.Port()}
}

func (w *world) port() string { return strconv.Itoa(int(w.address.Port())) }

func (w *world) validate(t testing.TB, kind, of string) Result {
	t.Helper()
	return Validate(t.Context(), challenge(kind, of), w.cfg)
}

// want is an expected outcome.
type want struct {
	kind   string // empty: valid
	detail string
	final  bool
	ours   bool
}

func assertResult(t testing.TB, got Result, w want) {
	t.Helper()
	if w.kind == "" {
		if !got.Valid || got.Problem != nil || got.Cause != nil || got.Final || got.OurFault {
			t.Errorf("it is not valid: %+v: %v", got, got.Cause)
		}
		return
	}
	if got.Valid || got.Problem == nil {
		t.Fatalf("it is valid, want %s", w.kind)
	}
	if !got.Problem.HasType(w.kind) || got.Problem.Detail != w.detail || got.Final != w.final || got.OurFault != w.ours {
		t.Errorf("%s %q, final %t, ours %t: %v\nwant %s %q, final %t, ours %t",
			got.Problem.Type, got.Problem.Detail, got.Final, got.OurFault, got.Cause, w.kind, w.detail, w.final, w.ours)
	}
	if got.Problem.Status < 400 {
		t.Errorf("status %d", got.Problem.Status)
	}
	for _, hidden := range []string{secret, url.PathEscape(secret), "127.0.0.", "::1", "169.254", "refused", "timeout", "timed out"} {
		if strings.Contains(got.Problem.Detail, hidden) {
			t.Errorf("the client learns of %q: %s", hidden, got.Problem.Detail)
		}
	}
}
