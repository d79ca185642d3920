package pki

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"strings"
	"unicode"
)

// sameDN compares two distinguished names as RFC 5280 section 7.1 requires of
// verifiers: attribute by attribute, ignoring the ASN.1 type of texts, case and
// the amount of white space (RFC 4518). A name that cannot be parsed equals no
// other.
func sameDN(a, b []byte) bool {
	left, ok := normalDN(a)
	if !ok {
		return false
	}
	right, ok := normalDN(b)
	return ok && slices.EqualFunc(left, right, slices.Equal[[]string])
}

// normalDN returns a text for each attribute of each RDN; the attributes of one
// RDN are a set.
func normalDN(der []byte) ([][]string, bool) {
	var sequence pkix.RDNSequence
	if rest, err := asn1.Unmarshal(der, &sequence); err != nil || len(rest) > 0 {
		return nil, false
	}
	name := make([][]string, len(sequence))
	for i, rdn := range sequence {
		for _, attribute := range rdn {
			text, isText := attribute.Value.(string)
			if !isText {
				return nil, false
			}
			name[i] = append(name[i], attribute.Type.String()+"="+normalText(text))
		}
		slices.Sort(name[i])
	}
	return name, true
}

// normalText folds case, replaces each run of white space within the text by
// one space, and removes surrounding white space.
func normalText(text string) string {
	fields := strings.FieldsFunc(text, unicode.IsSpace)
	return strings.ToLower(strings.ToUpper(strings.Join(fields, " ")))
}
