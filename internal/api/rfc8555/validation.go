package rfc8555

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"strings"
)

// HTTPPath is the path of http-01 responses, each under its token (section 8.3).
const HTTPPath = "/.well-known/acme-challenge/"

// RecordName returns the name, with a final dot, of the TXT record where a server starts
// the lookup for a type of challenge; empty for types that do not use DNS records. account
// is the URL of the account, for dns-account-01.
func RecordName(challenge, domain, account string) string {
	domain = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(domain, "*."), ".")) + "."
	switch challenge {
	case ChallengeDNS01:
		return "_acme-challenge." + domain
	case ChallengeDNSAccount01:
		return accountLabel(account) + "._acme-challenge." + domain
	case ChallengeDNSPersist01:
		return "_validation-persist." + domain
	}
	return ""
}

// accountLabel returns the label for an account
// (draft-ietf-acme-dns-account-label-03 section 3.2).
func accountLabel(url string) string {
	sum := sha256.Sum256([]byte(url))
	return "_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10]))
}

// IssuerDomains splits the comma-separated names of a CA that our objects hold for a
// dns-persist-01 challenge. It is empty if they are not known.
func IssuerDomains(key string) []string {
	return strings.FieldsFunc(strings.ToLower(key), func(r rune) bool { return r == ',' || r == ' ' })
}

// PersistentRecord returns the value of a TXT record that answers dns-persist-01 challenges
// (draft-ietf-acme-dns-persist-01 section 4). issuers are the names of the CA. At least one
// is required.
func PersistentRecord(issuers []string, account string, wildcard bool) string {
	issuer := "<the CA's domain name>"
	if len(issuers) > 0 {
		issuer = issuers[0]
	}
	text := issuer + "; accounturi=" + account
	if wildcard {
		text += "; policy=wildcard"
	}
	return text
}

// ServerName returns the server name of a tls-alpn-01 connection for a name or an address.
// For an address it is the name in the reverse zone, without the final dot (RFC 8738
// section 6).
func ServerName(host string) string {
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
