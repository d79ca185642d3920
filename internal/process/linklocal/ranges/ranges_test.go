package ranges_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/certplane/certplane/internal/process/linklocal/ranges"
)

func TestEmbedded(t *testing.T) {
	for address, want := range map[string]struct{ embedded, plain string }{
		"10.1.2.3":                {"[]", "10.1.2.3"},
		"::1":                     {"[]", "::1"},
		"::":                      {"[]", "::"},
		"fd00::1":                 {"[]", "fd00::1"},
		"fe80::1%eth0":            {"[]", "fe80::1"},
		"::ffff:10.1.2.3":         {"[10.1.2.3]", "10.1.2.3"},
		"::10.1.2.3":              {"[10.1.2.3]", "10.1.2.3"},
		"64:ff9b::10.1.2.3":       {"[10.1.2.3]", "10.1.2.3"},
		"64:ff9b::10.1.2.3%eth0":  {"[10.1.2.3]", "10.1.2.3"},
		"2002:a01:203::1":         {"[10.1.2.3]", "10.1.2.3"},
		"64:ff9b:1::10.1.2.3":     {"[10.1.2.3]", "10.1.2.3"},
		"64:ff9b:1::":             {"[0.0.0.0]", "0.0.0.0"},
		"64:ff9b:1:0:a:102:300:0": {"[3.0.0.0 10.1.2.3]", "64:ff9b:1:0:a:102:300:0"},
		"64:ff9b:1:a01:2:300::":   {"[2.3.0.0 1.2.3.0 10.1.2.3]", "64:ff9b:1:a01:2:300::"},
		"64:ff9b:2::10.1.2.3":     {"[]", "64:ff9b:2::a01:203"},
		"2003:a01:203::1":         {"[]", "2003:a01:203::1"},
		"::ffff:0:10.1.2.3":       {"[]", "::ffff:0:a01:203"},
		"2001:db8::ffff:10.1.2.3": {"[]", "2001:db8::ffff:a01:203"},
	} {
		parsed := netip.MustParseAddr(address)
		if got := fmt.Sprint(ranges.Embedded(parsed)); got != want.embedded {
			t.Errorf("%s: %s, want %s", address, got, want.embedded)
		}
		if got := ranges.Plain(parsed).String(); got != want.plain {
			t.Errorf("%s: %s, want %s", address, got, want.plain)
		}
	}
}
