package pki

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"
)

// EncodeDN returns the DER of a distinguished name. Domain components become
// IA5 strings (RFC 4519 section 2.4); other values become printable strings if
// possible, and otherwise UTF-8 strings (RFC 5280 section 4.1.2.4).
func EncodeDN(sequence pkix.RDNSequence) ([]byte, error) {
	encoded := make(pkix.RDNSequence, len(sequence))
	for i, set := range sequence {
		encoded[i] = slices.Clone(set)
		for j, attribute := range set {
			value, isText := attribute.Value.(string)
			if !isText || !attribute.Type.Equal(oidDomainComponent) {
				continue
			}
			der, err := asn1.MarshalWithParams(value, "ia5")
			if err != nil {
				return nil, fmt.Errorf("domain component %q: %w", value, err)
			}
			encoded[i][j].Value = asn1.RawValue{FullBytes: der}
		}
	}
	return asn1.Marshal(encoded)
}
