package validate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeaddress"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

var refused = want{rfc8555.ProblemConnection, "address not permitted", true, false}

// never are addresses of all classes to which nothing is sent, in all forms.
var never = []string{
	"127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "169.254.169.254", "169.254.1.1", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16",
	"224.0.0.1", "ff02::1", "255.255.255.255", "0.1.2.3", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "240.0.0.1",
	"2001:db8::1", "2001::1", "100::1",
	"::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "64:ff9b:1:7f00:0:100::", "2002:7f00:1::1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
	"10.96.0.1", "64:ff9b::a60:1", "10.0.0.5", "2002:a00:5::1", "10.9.0.1",
}

// rules are those of a process with a listener at the port of validations.
func (w *world) rules(port uint16) {
	w.cfg.HTTPPorts, w.cfg.TLSPorts, w.cfg.RedirectPorts = []uint16{port}, []uint16{port}, append(w.cfg.RedirectPorts, port)
	w.cfg.Addresses = acmeaddress.AddressRules{
		Deny: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}, Reserved: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
		Host: []netip.Addr{netip.MustParseAddr("10.0.0.5")}, Listeners: []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), port)},
	}
}

// Nothing is sent to such addresses: given as identifiers, found by name, or in a
// redirect.
func TestNever(t *testing.T) {
	for _, address := range never {
		t.Run(address, func(t *testing.T) {
			to := netip.MustParseAddr(address)
			record := "A"
			if to.Is6() {
				record = "AAAA"
			}
			w := newWorld(t, "bad.example. 60 IN "+record+" "+address, "good.example. 60 IN A 127.0.0.2")
			w.rules(5002)
			for _, kind := range []string{rfc8555.ChallengeHTTP01, rfc8555.ChallengeTLSALPN01} {
				assertResult(t, w.validate(t, kind, to.String()), refused)
				assertResult(t, w.validate(t, kind, "bad.example"), refused)
			}
			if dials := w.dialled(); len(dials) > 0 {
				t.Fatalf("dialled %v", dials)
			}
			// One address of loopback is a site. It opens no other.
			for _, host := range []string{"bad.example", inURL(address, ""), disguised(to)} {
				w.site(t, "127.0.0.2", func(rw http.ResponseWriter, r *http.Request) {
					rw.Header().Set("Location", "http://"+host+":5002/")
					rw.WriteHeader(http.StatusFound)
				})
				w.cfg.RedirectPorts = []uint16{5002}
				w.cfg.Addresses.AllowLocal = true
				w.permits("0.0.0.0/0", "::/0", "127.0.0.2/32")
				assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "good.example"), refused)
				if diff := cmp.Diff([]netip.AddrPort{w.address}, w.dialled(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

// disguised returns an address in the form that stands for IPv4 addresses.
func disguised(address netip.Addr) string {
	return "[" + netip.AddrFrom16(address.As16()).String() + "]"
}

// A name server that answers differently each time gains nothing: a host is looked
// up once a request, and what is dialled is what was judged.
func TestRebinding(t *testing.T) {
	for _, path := range []string{"/", "/redirect"} {
		t.Run(path, func(t *testing.T) {
			w := newWorld(t)
			var lookups atomic.Int64
			w.names.Break("a.example.", dns.TypeA, func(rw dns.ResponseWriter, query *dns.Msg) bool {
				address := "127.0.0.1"
				if lookups.Add(1) == 1 {
					address = "127.0.0.2"
				}
				return dnstest.Reply(func(reply *dns.Msg) {
					rr, _ := dns.NewRR("a.example. 0 IN A " + address)
					reply.Answer = []dns.RR{rr}
				})(rw, query)
			})
			w.site(t, "127.0.0.2", func(rw http.ResponseWriter, r *http.Request) {
				if path == "/redirect" {
					http.Redirect(rw, r, "http://"+r.Host+"/other", http.StatusFound)
					return
				}
				fmt.Fprint(rw, key)
			})
			inner, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", w.port()))
			if err != nil {
				t.Fatal(err)
			}
			defer inner.Close()
			w.permits("127.0.0.2/32")
			outcome, wanted := want{}, int64(1)
			if path == "/redirect" {
				outcome, wanted = refused, 2
			}
			assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), outcome)
			if got := lookups.Load(); got != wanted {
				t.Errorf("%d lookups, want %d", got, wanted)
			}
			if diff := cmp.Diff([]netip.AddrPort{w.address}, w.dialled(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The dialler asks by itself, with the address that it dials.
func TestControl(t *testing.T) {
	w := newWorld(t)
	a := &attempt{cfg: w.cfg}
	for _, address := range []string{"169.254.169.254:80", "[fe80::1%eth0]:80", "[::ffff:169.254.169.254]:80", "localhost:80", ""} {
		var failed *failure
		if err := a.control("tcp4", address, nil); !errors.As(err, &failed) || !failed.final {
			t.Errorf("%q: %v", address, err)
		}
	}
	if err := a.control("tcp4", "127.0.0.1:80", nil); err != nil {
		t.Error(err)
	}
}

// IPv4 is not tried after an IPv6 address that is refused.
func TestRefusalIsFinal(t *testing.T) {
	w := newWorld(t, "a.example. 60 IN AAAA fe80::1", "a.example. 60 IN A 127.0.0.1")
	w.site(t, "127.0.0.1", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, key) })
	got := w.validate(t, rfc8555.ChallengeHTTP01, "a.example")
	assertResult(t, got, refused)
	if want := fmt.Sprintf("address not permitted: [fe80::1]:%s: %s", w.port(), acmeaddress.RefusedLocal); got.Cause.Error() != want {
		t.Errorf("cause %q, want %q", got.Cause, want)
	}
	if dials := w.dialled(); len(dials) > 0 {
		t.Errorf("dialled %v", dials)
	}
}

// Names of the host, the local network and the cluster are not looked up.
func TestNames(t *testing.T) {
	w := newWorld(t)
	w.cfg.Names = acmeaddress.NameRules{ClusterDomain: "cluster.example", Allow: []string{"*.example", "*.local"}}
	for _, name := range []string{"localhost", "a.localhost", "b.local", "web.shop.svc.cluster.example"} {
		for _, kind := range []string{rfc8555.ChallengeHTTP01, rfc8555.ChallengeTLSALPN01} {
			assertResult(t, w.validate(t, kind, name), refused)
		}
	}
	if queries := w.names.Queries(); len(queries) > 0 {
		t.Errorf("queries %v", queries)
	}
	w.cfg.Names.Allow = append(w.cfg.Names.Allow, "b.local")
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "b.local"), want{rfc8555.ProblemDNS, "b.local has no address", false, false})
}

// What cannot have been offered is neither looked up nor dialled.
func TestImpossible(t *testing.T) {
	w := newWorld(t)
	for reason, change := range map[string]func(*Challenge){
		"a wildcard":                         func(c *Challenge) { c.Wildcard = true },
		"dns-01 of an address":               func(c *Challenge) { *c = challenge(rfc8555.ChallengeDNS01, "10.1.2.3") },
		"another type":                       func(c *Challenge) { c.Type = rfc8555.ChallengeDNSPersist01 },
		"another type of identifiers":        func(c *Challenge) { c.Identifier.Type = "email" },
		"a token with a path":                func(c *Challenge) { c.Token, c.KeyAuthorization = "../x", "../x.y" },
		"a key authorization of another":     func(c *Challenge) { c.KeyAuthorization = "x.y" },
		"a name with a path":                 func(c *Challenge) { c.Identifier.Value = "a.example/x" },
		"a name with a port":                 func(c *Challenge) { c.Identifier.Value = "a.example:80" },
		"a name with an end of line":         func(c *Challenge) { c.Identifier.Value = "a.example\n" },
		"a name with a final dot":            func(c *Challenge) { c.Identifier.Value = "a.example." },
		"an address in brackets":             func(c *Challenge) { c.Identifier = rfc8555.Identifier{Type: "ip", Value: "[::1]"} },
		"an address with a zone":             func(c *Challenge) { c.Identifier = rfc8555.Identifier{Type: "ip", Value: "fe80::1%eth0"} },
		"an IPv4 address in an IPv6 address": func(c *Challenge) { c.Identifier = rfc8555.Identifier{Type: "ip", Value: "::ffff:10.0.0.1"} },
		"an address that is none":            func(c *Challenge) { c.Identifier = rfc8555.Identifier{Type: "ip", Value: "a.example"} },
	} {
		t.Run(reason, func(t *testing.T) {
			c := challenge(rfc8555.ChallengeHTTP01, "a.example")
			change(&c)
			assertResult(t, Validate(t.Context(), c, w.cfg), want{rfc8555.ProblemServerInternal, "such a challenge cannot be validated", true, false})
		})
	}
	if queries, dials := w.names.Queries(), w.dialled(); len(queries)+len(dials) > 0 {
		t.Errorf("queries %v, dialled %v", queries, dials)
	}
}

// An attempt that is interrupted, or for which there was no place, does not count.
func TestOurFaults(t *testing.T) {
	w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	w.site(t, "127.0.0.1", func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	go func() {
		<-asked
		cancel()
	}()
	assertResult(t, Validate(ctx, challenge(rfc8555.ChallengeHTTP01, "a.example"), w.cfg), want{rfc8555.ProblemServerInternal, "the validation was interrupted", false, true})

	w.cfg.Targets = fairshare.NewPlaces(0, 1)
	w.site(t, "127.0.0.1", func(rw http.ResponseWriter, r *http.Request) {
		// While this one is validated, another attempt has no place.
		cfg := w.cfg
		cfg.Timeout = time.Hour // none waits for that long
		assertResult(t, Validate(r.Context(), challenge(rfc8555.ChallengeHTTP01, "a.example"), cfg), want{rfc8555.ProblemServerInternal, "too many validations at the moment", false, true})
		cfg.Addresses.Deny = cfg.Addresses.Allow // which needs no place
		assertResult(t, Validate(r.Context(), challenge(rfc8555.ChallengeHTTP01, "a.example"), cfg), refused)
		fmt.Fprint(rw, key)
	})
	for range 2 { // places are given back
		assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{})
	}
}
