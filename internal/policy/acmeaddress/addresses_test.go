package acmeaddress_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/policy/acmeaddress"
)

func networks(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// server is what a process knows of itself.
var server = acmeaddress.AddressRules{
	Deny:      networks("172.20.0.0/16"),
	Host:      []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")},
	Listeners: []netip.AddrPort{netip.MustParseAddrPort("[::]:443"), netip.MustParseAddrPort("10.0.0.9:81")},
	Reserved:  networks("10.96.0.0/12", "192.168.7.1/32"),
}

func with(change func(*acmeaddress.AddressRules)) acmeaddress.AddressRules {
	rules := server
	change(&rules)
	return rules
}

func TestJudgeAddress(t *testing.T) {
	allow := func(local bool, texts ...string) acmeaddress.AddressRules {
		return with(func(r *acmeaddress.AddressRules) { r.Allow, r.AllowLocal = networks(texts...), local })
	}
	const permitted = acmeaddress.Refusal("")
	for _, tc := range []struct {
		reason string
		to     string // port 80 without one
		rules  acmeaddress.AddressRules
		want   acmeaddress.Refusal
	}{
		{"global", "93.184.216.34", server, permitted},
		{"global IPv6", "2606:2800::1", server, permitted},
		{"private", "10.1.2.3", server, permitted},
		{"private, any port", "10.1.2.3:5002", server, permitted},
		{"private, the second", "172.16.0.1", server, permitted},
		{"private, the third", "192.168.0.1", server, permitted},
		{"shared", "100.64.0.1", server, permitted},
		{"unique local", "fd00::1", server, permitted},
		{"loopback", "127.0.0.1", server, acmeaddress.RefusedLocal},
		{"all of loopback", "127.255.255.254", server, acmeaddress.RefusedLocal},
		{"loopback IPv6", "::1", server, acmeaddress.RefusedLocal},
		{"unspecified", "0.0.0.0", server, acmeaddress.RefusedLocal},
		{"unspecified IPv6", "::", server, acmeaddress.RefusedLocal},
		{"metadata", "169.254.169.254", server, acmeaddress.RefusedLocal},
		{"link-local", "fe80::1", server, acmeaddress.RefusedLocal},
		{"link-local with a zone", "fe80::1%eth0", server, acmeaddress.RefusedLocal},
		{"metadata of AWS", "fd00:ec2::254", server, acmeaddress.RefusedLocal},
		{"metadata of Alibaba Cloud", "100.100.100.200", server, acmeaddress.RefusedLocal},
		{"metadata of Azure", "168.63.129.16", server, acmeaddress.RefusedLocal},
		{"multicast", "224.0.0.1", server, acmeaddress.RefusedNoHost},
		{"multicast IPv6", "ff02::1", server, acmeaddress.RefusedNoHost},
		{"broadcast", "255.255.255.255", server, acmeaddress.RefusedNoHost},
		{"this network", "0.1.2.3", server, acmeaddress.RefusedNoHost},
		{"protocol assignments", "192.0.0.170", server, acmeaddress.RefusedNoHost},
		{"documentation", "192.0.2.1", server, acmeaddress.RefusedNoHost},
		{"documentation, the second", "198.51.100.1", server, acmeaddress.RefusedNoHost},
		{"documentation, the third", "203.0.113.1", server, acmeaddress.RefusedNoHost},
		{"documentation IPv6", "2001:db8::1", server, acmeaddress.RefusedNoHost},
		{"benchmarks", "198.19.0.1", server, acmeaddress.RefusedNoHost},
		{"reserved", "240.0.0.1", server, acmeaddress.RefusedNoHost},
		{"Teredo", "2001:0:102:304::1", server, acmeaddress.RefusedNoHost},
		{"discard", "100::1", server, acmeaddress.RefusedNoHost},
		{"site-local", "fec0::1", server, acmeaddress.RefusedNoHost},
		{"not allocated", "4000::1", server, acmeaddress.RefusedNoHost},

		{"mapped", "::ffff:127.0.0.1", server, acmeaddress.RefusedLocal},
		{"mapped, permitted", "::ffff:10.1.2.3", server, permitted},
		{"compatible", "::127.0.0.1", server, acmeaddress.RefusedLocal},
		{"compatible, permitted", "::10.1.2.3", server, permitted},
		{"NAT64", "64:ff9b::a9fe:a9fe", server, acmeaddress.RefusedLocal},
		{"NAT64, permitted", "64:ff9b::5db8:d822", server, permitted},
		{"local NAT64, 96 bits", "64:ff9b:1::7f00:1", server, acmeaddress.RefusedLocal},
		{"local NAT64, 96 bits, permitted", "64:ff9b:1::10.1.2.3", server, permitted},
		{"local NAT64, 64 bits", "64:ff9b:1:0:7f:0:100:0", server, acmeaddress.RefusedLocal},
		{"local NAT64, 56 bits", "64:ff9b:1:7f:0:1::", server, acmeaddress.RefusedLocal},
		{"local NAT64, 48 bits", "64:ff9b:1:7f00:0:100::", server, acmeaddress.RefusedLocal},
		{"local NAT64, nothing in it", "64:ff9b:1::", server, acmeaddress.RefusedLocal},
		{"6to4", "2002:7f00:1::1", server, acmeaddress.RefusedLocal},
		{"6to4, permitted", "2002:a01:203::1", server, permitted},
		{"documentation in 6to4", "2002:c000:201::1", server, acmeaddress.RefusedNoHost},

		{"this host, a web server", "10.0.0.5:80", server, permitted},
		{"this host, another port", "10.0.0.5:8080", server, acmeaddress.RefusedHostPort},
		{"this host, IPv6", "[fd00::5]:8080", server, acmeaddress.RefusedHostPort},
		{"this host, mapped", "[::ffff:10.0.0.5]:8080", server, acmeaddress.RefusedHostPort},
		{"this host, listed", "10.0.0.5:8080", allow(false, "10.0.0.5/32"), acmeaddress.RefusedHostPort},
		{"a listener at all addresses", "10.0.0.5:443", server, acmeaddress.RefusedListener},
		{"its port elsewhere", "10.0.0.6:443", server, permitted},
		{"a listener at all addresses, on loopback", "127.0.0.1:443", allow(true, "127.0.0.0/8"), acmeaddress.RefusedListener},
		{"a listener at one address", "10.0.0.9:81", server, acmeaddress.RefusedListener},
		{"a listener by the unspecified address", "0.0.0.0:81", allow(true, "0.0.0.0/32"), acmeaddress.RefusedListener},

		{"a Service", "10.96.0.1", server, acmeaddress.RefusedReserved},
		{"a Service in disguise", "64:ff9b::10.96.0.1", server, acmeaddress.RefusedReserved},
		{"the API server", "192.168.7.1", server, acmeaddress.RefusedReserved},
		{"a Service, listed", "10.96.0.1", allow(false, "10.96.0.1/32"), permitted},
		{"a Service, listed with all others", "10.96.0.1", allow(false, "10.96.0.0/12"), permitted},
		{"a Service in a network that is listed", "10.96.0.1", allow(false, "10.0.0.0/8"), acmeaddress.RefusedReserved},

		{"loopback, opened", "127.0.0.1:5002", allow(true, "127.0.0.0/8"), permitted},
		{"loopback, only listed", "127.0.0.1:5002", allow(false, "127.0.0.0/8"), acmeaddress.RefusedLocal},
		{"loopback, not listed", "127.0.0.1:5002", allow(true, "10.0.0.0/8"), acmeaddress.RefusedLocal},
		{"loopback, in everything", "127.0.0.1:5002", allow(true, "0.0.0.0/0"), acmeaddress.RefusedLocal},
		{"mapped loopback, opened", "[::ffff:127.0.0.1]:5002", allow(true, "127.0.0.0/8"), permitted},
		{"loopback, opened in IPv6", "127.0.0.1:5002", allow(true, "::ffff:127.0.0.0/104"), permitted},
		{"metadata, in link-local", "169.254.169.254", allow(true, "169.254.0.0/16"), permitted},
		{"metadata of AWS, in unique local", "fd00:ec2::254", allow(true, "fd00::/8"), acmeaddress.RefusedLocal},
		{"metadata of AWS, opened", "fd00:ec2::254", allow(true, "fd00:ec2::254/128"), permitted},
		{"multicast, listed", "224.0.0.1", allow(true, "224.0.0.1/32"), acmeaddress.RefusedNoHost},
		{"documentation, listed", "192.0.2.1", allow(true, "192.0.2.0/24"), acmeaddress.RefusedNoHost},

		{"not listed", "10.2.0.1", allow(false, "10.1.0.0/16"), acmeaddress.RefusedNotListed},
		{"global, not listed", "93.184.216.34", allow(false, "10.1.0.0/16"), acmeaddress.RefusedNotListed},
		{"listed", "10.1.0.1", allow(false, "10.1.0.0/16"), permitted},
		{"listed, as NAT64", "64:ff9b::10.1.0.1", allow(false, "10.1.0.0/16"), permitted},
		{"the range of NAT64 is listed", "64:ff9b::10.1.0.1", allow(false, "64:ff9b::/96"), acmeaddress.RefusedNotListed},
		{"denied", "172.20.0.1", server, acmeaddress.RefusedDenied},
		{"denied and listed", "172.20.0.1", allow(false, "172.20.0.1/32"), acmeaddress.RefusedDenied},
		{"denied in disguise", "2002:ac14:1::1", server, acmeaddress.RefusedDenied},
		{"the disguise is denied", "64:ff9b::10.1.0.1", with(func(r *acmeaddress.AddressRules) { r.Deny = networks("64:ff9b::/96") }), acmeaddress.RefusedDenied},
		{"denied, written in IPv6", "10.1.0.1", with(func(r *acmeaddress.AddressRules) { r.Deny = networks("::ffff:10.1.0.0/112") }), acmeaddress.RefusedDenied},
		{"everything is denied", "10.1.0.1", with(func(r *acmeaddress.AddressRules) { r.Deny = networks("0.0.0.0/0", "::/0") }), acmeaddress.RefusedDenied},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			to, err := netip.ParseAddrPort(tc.to)
			if err != nil {
				to = netip.AddrPortFrom(netip.MustParseAddr(tc.to), 80)
			}
			if got := acmeaddress.JudgeAddress(to, tc.rules); got != tc.want {
				t.Errorf("%s: %q, want %q", to, got, tc.want)
			}
		})
	}
	if got := acmeaddress.JudgeAddress(netip.AddrPort{}, server); got != acmeaddress.RefusedInvalid {
		t.Errorf("no address: %q", got)
	}
}

// forms returns all IPv6 addresses that stand for an IPv4 address, some with zones.
func forms(address netip.Addr) map[string]netip.Addr {
	b := address.As4()
	six := func(change func(a *[16]byte)) netip.Addr {
		var a [16]byte
		change(&a)
		return netip.AddrFrom16(a)
	}
	local := func(a *[16]byte) { copy(a[:], []byte{0, 0x64, 0xff, 0x9b, 0, 1}) }
	all := map[string]netip.Addr{
		"mapped":     netip.AddrFrom16(address.As16()),
		"compatible": six(func(a *[16]byte) { copy(a[12:], b[:]) }),
		"NAT64":      six(func(a *[16]byte) { copy(a[:], []byte{0, 0x64, 0xff, 0x9b}); copy(a[12:], b[:]) }),
		"6to4":       six(func(a *[16]byte) { copy(a[:], []byte{0x20, 0x02}); copy(a[2:], b[:]); a[15] = 1 }),
		"local 96":   six(func(a *[16]byte) { local(a); copy(a[12:], b[:]) }),
		"local 64":   six(func(a *[16]byte) { local(a); copy(a[9:], b[:]) }),
		"local 56":   six(func(a *[16]byte) { local(a); a[7] = b[0]; copy(a[9:], b[1:]) }),
		"local 48":   six(func(a *[16]byte) { local(a); copy(a[6:], b[:2]); copy(a[9:], b[2:]) }),
	}
	all["NAT64 with a zone"] = all["NAT64"].WithZone("eth0")
	return all
}

// checkForms fails if an address is permitted in disguise, but not as it is.
func checkForms(t *testing.T, address netip.Addr, rules acmeaddress.AddressRules) {
	t.Helper()
	for _, port := range []uint16{80, 443, 8080} {
		refused := acmeaddress.JudgeAddress(netip.AddrPortFrom(address, port), rules)
		for name, form := range forms(address) {
			// What is 0 at the place of the first byte is taken for the prefix.
			if strings.HasPrefix(name, "local") && address.As4()[0] == 0 {
				continue
			}
			if refused != "" && acmeaddress.JudgeAddress(netip.AddrPortFrom(form, port), rules) == "" {
				t.Errorf("%s port %d: %s (%s) is permitted, the address is not: %s", address, port, form, name, refused)
			}
		}
		// Which of several addresses is meant is only unknown in the local forms.
		for _, name := range []string{"mapped", "NAT64", "6to4"} {
			if got := acmeaddress.JudgeAddress(netip.AddrPortFrom(forms(address)[name], port), rules); got != refused {
				t.Errorf("%s port %d, %s: %q, want %q", address, port, name, got, refused)
			}
		}
	}
}

func TestDisguises(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	opened := with(func(r *acmeaddress.AddressRules) {
		r.Allow, r.AllowLocal = networks("127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/17"), true
	})
	special := networks("0.0.0.0/8", "10.0.0.0/8", "10.96.0.0/12", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "172.20.0.0/16",
		"192.0.0.0/16", "192.168.7.0/29", "198.18.0.0/15", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "100.100.100.200/32", "168.63.129.16/32", "10.0.0.4/30", "0.0.0.0/0")
	for range 5000 {
		network := special[random.IntN(len(special))]
		b := network.Masked().Addr().As4()
		host := random.Uint32() & uint32(uint64(1)<<(32-network.Bits())-1)
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])|host)
		for _, rules := range []acmeaddress.AddressRules{{}, server, opened} {
			checkForms(t, netip.AddrFrom4(b), rules)
		}
	}
}

func FuzzAddressForms(f *testing.F) {
	for _, text := range []string{"127.0.0.1", "169.254.169.254", "10.96.0.1", "::ffff:10.0.0.5", "64:ff9b:1:7f00:0:100::", "fe80::1%eth0", "2002:7f00:1::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return
		}
		if plain := address.Unmap(); plain.Is4() {
			checkForms(t, plain, server)
			return
		}
		for port := range uint16(2) {
			with := acmeaddress.JudgeAddress(netip.AddrPortFrom(address, port), server)
			if without := acmeaddress.JudgeAddress(netip.AddrPortFrom(address.WithZone(""), port), server); with != without {
				t.Errorf("%s: %q, without its zone %q", address, with, without)
			}
		}
	})
}

func TestOpensLocal(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.0/8": true, "127.0.0.1/32": true, "::1/128": true, "169.254.169.254/32": true, "fe80::/64": true, "::ffff:127.0.0.1/128": true, "fd00:ec2::254/128": true,
		"10.0.0.0/8": false, "0.0.0.0/0": false, "::/0": false, "fd00::/8": false,
	} {
		if got := acmeaddress.OpensLocal(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestJudgeName(t *testing.T) {
	rules := acmeaddress.NameRules{ClusterDomain: "k8s.corp.example", Allow: []string{"*.corp.example", "printer.local", "*.local"}}
	for name, permitted := range map[string]bool{
		"localhost": false, "LOCALHOST.": false, "a.localhost": false, "local": false, "b.local": false, "Printer.local.": true,
		"k8s.corp.example": false, "web.shop.svc.k8s.corp.example": false, "web.corp.example": true, "notlocal": true, "mylocalhost": true, "k8s.corp.example.org": true,
	} {
		if got := acmeaddress.JudgeName(name, rules); (got == "") != permitted {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := acmeaddress.JudgeName("web.example", acmeaddress.NameRules{}); got != "" {
		t.Errorf("without a cluster: %q", got)
	}
}
