package dnsquery

import (
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// TXT returns the values of the TXT records of a name in a reply. The strings of
// one record are joined.
func TXT(reply *dns.Msg, name string) []string {
	var values []string
	for _, rr := range reply.Answer {
		if txt, ok := rr.(*dns.TXT); ok && strings.EqualFold(txt.Hdr.Name, name) {
			values = append(values, strings.Join(txt.Txt, ""))
		}
	}
	return values
}

// Addresses returns the addresses in the A and AAAA records of a name in a reply; of all
// names if name is empty.
func Addresses(reply *dns.Msg, name string) []netip.Addr {
	var addresses []netip.Addr
	for _, rr := range reply.Answer {
		if name != "" && !strings.EqualFold(rr.Header().Name, name) {
			continue
		}
		var ip net.IP
		switch rr := rr.(type) {
		case *dns.A:
			ip = rr.A
		case *dns.AAAA:
			ip = rr.AAAA
		}
		if address, ok := netip.AddrFromSlice(ip); ok {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses
}
