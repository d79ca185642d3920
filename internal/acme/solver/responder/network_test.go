package responder

import (
	"net/netip"
	"testing"
)

// Addresses of one network are counted as one client.
func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.0/24", "::ffff:192.0.2.3": "192.0.2.0/24", "2001:db8:0:1::1": "2001:db8::/48",
	} {
		if got := network(netip.MustParseAddr(address)); got.String() != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	if got := network(netip.Addr{}); got.IsValid() {
		t.Errorf("no address: %s", got)
	}
}
