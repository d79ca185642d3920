package identifier_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/acmeserver/identifier"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

func TestDNS(t *testing.T) {
	label := strings.Repeat("a", 63)
	long := strings.Join([]string{label, label, label, strings.Repeat("a", 61)}, ".")
	for _, tc := range []struct{ reason, value, want string }{
		{"a name", "a.corp.example", "a.corp.example"},
		{"upper case", "A.Corp.EXAMPLE", "a.corp.example"},
		{"one label", "intranet", "intranet"},
		{"a wildcard", "*.Corp.example", "*.corp.example"},
		{"digits", "1.2.3.example", "1.2.3.example"},
		{"a last label with digits and letters", "host.r2d2", "host.r2d2"},
		{"hyphens", "a--b.a-b.example", "a--b.a-b.example"},
		{"hyphens as of an A-label", "r3---x.example", "r3---x.example"},
		{"an A-label", "xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"an A-label in upper case", "XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"an A-label with a deviation character of IDNA 2003", "xn--strae-oqa.example", "xn--strae-oqa.example"},
		{"an A-label with a middle dot", "xn--ll-0ea.example", "xn--ll-0ea.example"},
		{"an A-label of the ideographic zero", "xn--w6j.example", "xn--w6j.example"},
		{"an A-label with a joiner after a virama", "xn--11b2ezcw70k.example", "xn--11b2ezcw70k.example"},
		{"a label of 63 octets", label + ".example", label + ".example"},
		{"a name of 253 octets", long, long},

		{"nothing", "", ""},
		{"a dot", ".", ""},
		{"a dot at the end", "a.example.", ""},
		{"a dot at the start", ".a.example", ""},
		{"an empty label", "a..example", ""},
		{"a label of 64 octets", label + "a.example", ""},
		{"a name of 254 octets", "a" + long, ""},
		{"a wildcard of 254 octets", "*." + long[1:], ""},
		{"an underscore", "_acme.example", ""},
		{"a hyphen at the start", "-a.example", ""},
		{"a hyphen at the end", "a-.example", ""},
		{"a space", "a b.example", ""},
		{"a space at the end", "a.example ", ""},
		{"a line break at the end", "a.example\n", ""},
		{"a carriage return", "a.example\r", ""},
		{"a tab", "\ta.example", ""},
		{"NUL", "a.example\x00.evil", ""},
		{"a slash", "a.example/b", ""},
		{"a port", "a.example:80", ""},
		{"a user", "x@a.example", ""},
		{"a percent sign", "a%2eexample", ""},
		{"a U-label", "bücher.example", ""},
		{"an ideographic full stop", "a\u3002example", ""},
		{"a full-width full stop", "a\uff0eexample", ""},
		{"the Kelvin sign, whose lower case is k", "\u212a.example", ""},
		{"a zero-width joiner", "a\u200d.example", ""},
		{"a soft hyphen", "a\u00ad.example", ""},
		{"not UTF-8", "a\xff.example", ""},
		{"nothing in an A-label", "xn--.example", ""},
		{"punycode that cannot be decoded", "xn--999999999.example", ""},
		{"an A-label of ASCII only", "xn--abc-.example", ""},
		{"an A-label of an upper-case letter", "xn--bcher-2pa.example", ""},
		{"an A-label of a heart, which UTS 46 permits", "xn--g6h.example", ""},
		{"an A-label of the euro sign", "xn--lzg.example", ""},
		{"an A-label of a Roman numeral", "xn--t4g.example", ""},
		{"an A-label of a full-width letter", "xn--mi7c.example", ""},
		{"an A-label that is not composed", "xn--a-ccb.example", ""},
		{"an A-label of a joiner alone", "xn--1ug.example", ""},
		{"an A-label that mixes directions", "xn--a-zhc.example", ""},
		{"an A-label that begins with a combining mark", "xn--a-wbb.example", ""},
		{"an A-label in an A-label", "xn--xn--a-9ka.example", ""},
		{"an IPv4 address", "10.0.0.1", ""},
		{"an IPv6 address", "2001:db8::1", ""},
		{"an IPv6 address in brackets", "[::1]", ""},
		{"a short IPv4 address", "127.1", ""},
		{"a number", "2130706433", ""},
		{"a hexadecimal IPv4 address", "0x7f.0.0.0x1", ""},
		{"an empty hexadecimal number", "127.0.0.0x", ""},
		{"five numbers", "1.2.3.4.5", ""},
		{"a last label of digits", "a.example.7", ""},
		{"a wildcard alone", "*", ""},
		{"a wildcard of one label", "*.example", ""},
		{"a wildcard of nothing", "*.", ""},
		{"a wildcard of a wildcard", "*.*.example", ""},
		{"a wildcard in the middle", "a.*.example", ""},
		{"a wildcard in a label", "a*.corp.example", ""},
		{"a deep wildcard", "**.corp.example", ""},
		{"a wildcard of an address", "*.10.0.0.1", ""},
		{"a wildcard with an empty label", "*..example", ""},
	} {
		check(t, tc.reason, rfc8555.Identifier{Type: "dns", Value: tc.value}, tc.want, rfc8555.ProblemMalformed)
	}
}

func TestIP(t *testing.T) {
	for _, tc := range []struct{ reason, value, want string }{
		{"IPv4", "10.0.0.1", "10.0.0.1"},
		{"IPv6", "2001:db8::1", "2001:db8::1"},
		{"one zero group", "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
		{"the unspecified one", "::", "::"},

		{"nothing", "", ""},
		{"a name", "a.example", ""},
		{"upper case", "2001:DB8::1", ""},
		{"leading zeros", "2001:0db8::1", ""},
		{"not the shortest", "2001:db8:0:0:0:0:0:1", ""},
		{"one group shortened", "2001:db8::1:1:1:1:1", ""},
		{"not the longest run shortened", "2001:0:0:1::1", "2001:0:0:1::1"},
		{"the second of two equal runs shortened", "2001:0:0:1:1::1", ""},
		{"a zone", "fe80::1%eth0", ""},
		{"brackets", "[2001:db8::1]", ""},
		{"a port", "10.0.0.1:80", ""},
		{"a prefix", "10.0.0.0/8", ""},
		{"an IPv4 address in IPv6", "::ffff:10.0.0.1", ""},
		{"the same in hexadecimal", "::ffff:a00:1", ""},
		{"an IPv4 address at the end", "64:ff9b::10.0.0.1", ""},
		{"a leading zero in IPv4", "10.0.0.01", ""},
		{"octal", "012.0.0.1", ""},
		{"hexadecimal", "0x0a.0.0.1", ""},
		{"three numbers", "10.0.1", ""},
		{"a number", "167772161", ""},
		{"a space", " 10.0.0.1", ""},
		{"a line break", "10.0.0.1\n", ""},
		{"a wildcard", "*.0.0.1", ""},
		{"other digits", "１0.0.0.1", ""},
	} {
		check(t, tc.reason, rfc8555.Identifier{Type: "ip", Value: tc.value}, tc.want, rfc8555.ProblemMalformed)
	}
}

func TestTypes(t *testing.T) {
	for _, kind := range []string{"", "DNS", "email", "uri", "permanent-identifier", "dns\x00"} {
		check(t, kind, rfc8555.Identifier{Type: kind, Value: "a.example"}, "", rfc8555.ProblemUnsupportedIdentifier)
	}
}

// check expects a value, or a problem if the value is empty.
func check(t *testing.T, reason string, id rfc8555.Identifier, want, kind string) {
	t.Helper()
	got, problem := identifier.Normalize(id)
	switch {
	case want == "" && problem == nil:
		t.Errorf("%s: %q is accepted as %q", reason, id.Value, got.Value)
	case want == "":
		if problem.Type != rfc8555.Namespace+kind || problem.Identifier != id {
			t.Errorf("%s: %+v, want the type %s", reason, problem, kind)
		}
	case problem != nil || got != (rfc8555.Identifier{Type: id.Type, Value: want}):
		t.Errorf("%s: %q, %v, want %q", reason, got.Value, problem, want)
	}
}

func TestNormalizeAll(t *testing.T) {
	dns := func(value string) rfc8555.Identifier { return rfc8555.Identifier{Type: "dns", Value: value} }
	ids, problem := identifier.NormalizeAll([]rfc8555.Identifier{dns("b.example"), dns("A.example"), dns("B.example"), {Type: "ip", Value: "10.0.0.1"}, dns("a.example")})
	if want := []rfc8555.Identifier{dns("b.example"), dns("a.example"), {Type: "ip", Value: "10.0.0.1"}}; problem != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v", ids, problem)
	}
	ids, problem = identifier.NormalizeAll([]rfc8555.Identifier{dns("b.example"), dns("a_.example"), {Type: "ip", Value: "x"}, {Type: "email", Value: "a@b"}, dns("c.example")})
	if ids != nil || !problem.HasType(rfc8555.ProblemCompound) || len(problem.Subproblems) != 3 || problem.Subproblems[0].Identifier != dns("a_.example") {
		t.Errorf("%v, %v", ids, problem)
	}
}

// FuzzNormalize: what is accepted is in the form that it gets, and has no other
// reading.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"a.example", "*.A.example", "xn--bcher-kva.example", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "a.example.", "a\u3002example", "127.1"} {
		f.Add("dns", seed)
		f.Add("ip", seed)
	}
	f.Fuzz(func(t *testing.T, kind, value string) {
		one, problem := identifier.Normalize(rfc8555.Identifier{Type: kind, Value: value})
		if problem != nil {
			return
		}
		if again, problem := identifier.Normalize(one); problem != nil || again != one {
			t.Errorf("%q became %q, then %q, %v", value, one.Value, again.Value, problem)
		}
		if !strings.EqualFold(one.Value, value) || strings.ContainsFunc(one.Value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q became %q", value, one.Value)
		}
		address, err := netip.ParseAddr(one.Value)
		if (err == nil) != (one.Type == "ip") || err == nil && address.String() != one.Value {
			t.Errorf("%s %q is the address %v", one.Type, one.Value, address)
		}
	})
}
