package server

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// fakeListener returns an address without listening there.
type fakeListener struct {
	net.Listener
	addr netip.AddrPort
}

func (l fakeListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

func TestAdvertised(t *testing.T) {
	for _, test := range []struct {
		reason, listening, configured, want string
	}{
		{"loopback", "127.0.0.1:6443", "", "127.0.0.1:6443"},
		{"an address", "192.0.2.7:6443", "", "192.0.2.7:6443"},
		{"an address of IPv4 in IPv6", "[::ffff:192.0.2.7]:6443", "", "192.0.2.7:6443"},
		{"another address", "127.0.0.1:6443", "192.0.2.8", "192.0.2.8:6443"},
		{"another port", "0.0.0.0:6443", "192.0.2.8:443", "192.0.2.8:443"},
		{"an address of IPv6", "[::]:6443", "2001:db8::7", "[2001:db8::7]:6443"},
	} {
		cfg := ServingConfig{Listen: test.listening, AdvertiseAddress: test.configured}
		if err := cfg.validate(); err != nil {
			t.Errorf("%s: %v", test.reason, err)
		}
		if got := advertised(cfg, fakeListener{addr: netip.MustParseAddrPort(test.listening)}); got.String() != test.want {
			t.Errorf("%s: %s, want %s", test.reason, got, test.want)
		}
	}
	// A wildcard address is replaced by one of this host's, or loopback.
	for _, everywhere := range []string{"0.0.0.0:6443", "[::]:6443"} {
		got := advertised(ServingConfig{}, fakeListener{addr: netip.MustParseAddrPort(everywhere)})
		if !got.IsValid() || got.Addr().IsUnspecified() || got.Port() != 6443 {
			t.Errorf("%s: %s", everywhere, got)
		}
	}
}

// A wildcard address is not one that programs can connect to, whatever the host
// does with it.
func TestLocalURL(t *testing.T) {
	for _, tc := range []struct {
		reason, listen, got, want string
	}{
		{"all of IPv4", "0.0.0.0:6443", "0.0.0.0", "https://127.0.0.1:6443"},
		{"all of IPv4, on a host with both families", "0.0.0.0:6443", "::", "https://127.0.0.1:6443"},
		{"no address", ":6443", "::", "https://127.0.0.1:6443"},
		{"all of IPv6", "[::]:6443", "::", "https://[::1]:6443"},
		{"all of IPv6, on a host with IPv4 alone", "[::]:6443", "0.0.0.0", "https://127.0.0.1:6443"},
		{"one address", "192.0.2.7:6443", "192.0.2.7", "https://192.0.2.7:6443"},
		{"one IPv6 address", "[2001:db8::7]:6443", "2001:db8::7", "https://[2001:db8::7]:6443"},
		{"a name", "localhost:6443", "127.0.0.1", "https://127.0.0.1:6443"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := localURL(tc.listen, fakeListener{addr: netip.AddrPortFrom(netip.MustParseAddr(tc.got), 6443)}); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// The address for a wildcard can really be dialled on this host.
func TestLocalURLIsReachable(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		listener, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		conn, err := net.Dial("tcp", strings.TrimPrefix(localURL(listen, listener), "https://"))
		if err != nil {
			t.Errorf("%s: %v", listen, err)
			continue
		}
		conn.Close()
	}
}
