package acmevalidate

import (
	"net/netip"
	"slices"
	"testing"
)

// The API and each etcd are reserved with all of their ports; sockets and this host are
// closed by other rules.
func TestReserve(t *testing.T) {
	r := &reconciler{Config: Config{Network: Network{
		URLs:     []string{"https://10.1.2.3:2379", "https://[fd00::7]:2379", "unix://localhost", "https://127.0.0.1:6443", "https://nosuch.invalid"},
		Reserved: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
	}}}
	want := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.1.2.3/32"), netip.MustParsePrefix("fd00::7/128")}
	if r.reserve(t.Context()); !slices.Equal(*r.reserved.Load(), want) {
		t.Errorf("reserved are %v", *r.reserved.Load())
	}
}
