package profile

import (
	"crypto/x509"
	"encoding/asn1"
	"slices"

	"github.com/certplane/certplane/internal/pki"
)

// encipherment contains the usages that only RSA keys can have.
const encipherment = x509.KeyUsageKeyEncipherment | x509.KeyUsageDataEncipherment

func contains(permitted, asked pki.Usages) bool {
	for _, usage := range asked.Extended {
		if !slices.Contains(permitted.Extended, usage) {
			return false
		}
	}
	return asked.Key&^permitted.Key == 0
}

// hasPurposes reports whether has contains all requested extended usages.
func hasPurposes(has []x509.ExtKeyUsage, asked []asn1.ObjectIdentifier) bool {
	return !slices.ContainsFunc(asked, func(id asn1.ObjectIdentifier) bool {
		return !slices.ContainsFunc(has, func(usage x509.ExtKeyUsage) bool { return usage.OID().EqualASN1OID(id) })
	})
}
