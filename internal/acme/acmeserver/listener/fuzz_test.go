package listener

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// What a client writes into X-Forwarded-For never makes it another client than the
// one before the trusted proxies.
func FuzzForwardedFor(f *testing.F) {
	for _, seed := range []string{"", "192.0.2.1", "192.0.2.1, 10.0.0.2", "[2001:db8::1]:443", "::ffff:10.0.0.2", "fe80::1%eth0", "unknown", "192.0.2.1,,10.0.0.2", " 192.0.2.1\t", "10.0.0.2"} {
		f.Add("10.0.0.1:1234", seed)
	}
	f.Add("192.0.2.9:1", "203.0.113.1")
	s := &Server{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	f.Fuzz(func(t *testing.T, remote, header string) {
		of := func(lines ...string) netip.Addr {
			return s.clientOf(&http.Request{RemoteAddr: remote, Header: http.Header{forwardedFor: lines}})
		}
		client := of(header)
		if from := addressOf(remote); !within(s.proxies, from) {
			if client != from {
				t.Fatalf("%s is taken for %s, but is no proxy", from, client)
			}
			return
		}
		if !client.IsValid() || client.Zone() != "" || client.Is4In6() {
			t.Fatalf("%q: %v", header, client)
		}
		if within(s.proxies, client) {
			return // nothing but proxies, or a header that cannot be read
		}
		for _, forged := range []netip.Addr{of("203.0.113.99, " + header), of("203.0.113.99", header), of("10.9.9.9," + header), of("x,", header)} {
			if forged != client {
				t.Fatalf("%q: %s becomes %s by what is before it", header, client, forged)
			}
		}
		if hops := strings.Split(header, ","); len(hops) > 0 && addressOf(strings.TrimSpace(hops[len(hops)-1])) == client && of(header+", 10.0.0.7") != client {
			t.Fatalf("%q: another proxy changes the client", header)
		}
	})
}
