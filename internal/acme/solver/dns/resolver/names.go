package resolver

import (
	"strings"

	"github.com/miekg/dns"
)

// IsName reports whether a text is a domain name with a final dot, and not the
// root.
func IsName(text string) bool {
	_, ok := dns.IsDomainName(text)
	return ok && dns.IsFqdn(text) && text != "."
}

// InZone reports whether a name is in a zone: the zone's own name or below it.
func InZone(name, zone string) bool { return IsName(zone) && dns.IsSubDomain(zone, name) }

// Sibling returns a name beside another one.
func Sibling(name, label string) string {
	_, parent, _ := strings.Cut(name, ".")
	return label + "." + parent
}
