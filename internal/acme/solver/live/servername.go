package live

import (
	"fmt"
	"net/netip"
	"strings"
)

// ServerName returns the name by which TLS-ALPN-01 asks for a name or an
// address: an address by its name in the reverse zone, without the final dot
// (RFC 8738 section 6).
func ServerName(host string) string {
	host = Host(host)
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if address.Is4() {
		b := address.As4()
		return fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", b[3], b[2], b[1], b[0])
	}
	var name strings.Builder
	bytes := address.As16()
	for i := len(bytes) - 1; i >= 0; i-- {
		fmt.Fprintf(&name, "%x.%x.", bytes[i]&0xf, bytes[i]>>4)
	}
	return name.String() + "ip6.arpa"
}
