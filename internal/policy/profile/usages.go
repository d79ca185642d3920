package profile

import (
	"crypto/x509"
	"encoding/asn1"
	"slices"

	"github.com/certplane/certplane/internal/pki"
)

// encipherment is what only RSA keys can do.
const encipherment = x509.KeyUsageKeyEncipherment | x509.KeyUsageDataEncipherment

func contains(permitted, asked pki.Usages) bool {
	for _, usage := range asked.Extended {
		if !slices.Contains(permitted.Extended, usage) {
			return false
		}
	}
	return asked.Key&^permitted.Key == 0
}

// readKeyUsage reads the bits of RFC 5280 section 4.2.1.3.
func readKeyUsage(value []byte) (x509.KeyUsage, bool) {
	var bits asn1.BitString
	if rest, err := asn1.Unmarshal(value, &bits); err != nil || len(rest) > 0 {
		return 0, false
	}
	var usage x509.KeyUsage
	for i := range bits.BitLength {
		if bits.At(i) == 0 {
			continue
		}
		if i > 8 { // there are no such bits
			return 0, false
		}
		usage |= 1 << i
	}
	return usage, true
}

// hasExtUsages tells whether all that a request asks for in value is in has.
func hasExtUsages(has []x509.ExtKeyUsage, value []byte) bool {
	var asked []asn1.ObjectIdentifier
	if rest, err := asn1.Unmarshal(value, &asked); err != nil || len(rest) > 0 {
		return false
	}
	for _, id := range asked {
		if !slices.ContainsFunc(has, func(usage x509.ExtKeyUsage) bool { return usage.OID().EqualASN1OID(id) }) {
			return false
		}
	}
	return true
}
