package wanted

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// subjectDifferences compares a literal subject attribute by attribute in its
// order, and ignores the string types in the request.
func subjectDifferences(spec *cmv1.CertificateSpec, csr *x509.CertificateRequest) []string {
	if spec.LiteralSubject != "" {
		wanted, err := sequence(spec)
		if err == nil && slices.Equal(flat(wanted), flatDER(csr.RawSubject)) {
			return nil
		}
		return []string{"spec.literalSubject"}
	}
	var differences []string
	wanted, asked := name(spec), csr.Subject
	for _, c := range subjectComparisons {
		if !sameSet(c.values(wanted), c.values(asked)) {
			differences = append(differences, c.field)
		}
	}
	if slices.ContainsFunc(asked.Names, isForeign) {
		differences = append(differences, "spec.literalSubject") // which the spec had at the time
	}
	return differences
}

var subjectComparisons = []struct {
	field  string
	values func(pkix.Name) []string
}{
	{"spec.commonName", func(n pkix.Name) []string { return []string{n.CommonName} }},
	{"spec.subject.serialNumber", func(n pkix.Name) []string { return []string{n.SerialNumber} }},
	{"spec.subject.organizations", func(n pkix.Name) []string { return n.Organization }},
	{"spec.subject.organizationalUnits", func(n pkix.Name) []string { return n.OrganizationalUnit }},
	{"spec.subject.countries", func(n pkix.Name) []string { return n.Country }},
	{"spec.subject.localities", func(n pkix.Name) []string { return n.Locality }},
	{"spec.subject.provinces", func(n pkix.Name) []string { return n.Province }},
	{"spec.subject.streetAddresses", func(n pkix.Name) []string { return n.StreetAddress }},
	{"spec.subject.postalCodes", func(n pkix.Name) []string { return n.PostalCode }},
}

// isForeign reports whether an attribute can only come from a literal subject.
func isForeign(attribute pkix.AttributeTypeAndValue) bool {
	oid := attribute.Type
	if len(oid) != 4 || !oid[:3].Equal(asn1.ObjectIdentifier{2, 5, 4}) {
		return true
	}
	return !slices.Contains([]int{3, 5, 6, 7, 8, 9, 10, 11, 17}, oid[3]) // RFC 4519: those of pkix.Name
}

// flat lists attributes with the number of their RDN; the order within an RDN
// has no meaning and changes with the encoding.
func flat(sequence pkix.RDNSequence) []string {
	var all []string
	for i, set := range sequence {
		var part []string
		for _, attribute := range set {
			part = append(part, fmt.Sprintf("%d %v=%v", i, attribute.Type, attribute.Value))
		}
		all = append(all, slices.Sorted(slices.Values(part))...)
	}
	return all
}

func flatDER(der []byte) []string {
	var sequence pkix.RDNSequence
	if rest, err := asn1.Unmarshal(der, &sequence); err != nil || len(rest) > 0 {
		return nil
	}
	return flat(sequence)
}
