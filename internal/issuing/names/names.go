// Package names compares the names in a certificate with those in its request.
package names

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/pki"
)

// Compare refuses a certificate with names that were not requested, and
// returns the requested ones that it lacks.
func Compare(cert *x509.Certificate, csr *x509.CertificateRequest) (missing []string, err error) {
	got, err := alternativeNames(cert.Extensions)
	if err != nil {
		return nil, err
	}
	asked, err := alternativeNames(csr.Extensions)
	if err != nil {
		return nil, err
	}
	common := commonNames(csr.Subject)
	for _, name := range got {
		// A role may repeat the common name among the alternative names.
		if !slices.Contains(asked, name) && !slices.ContainsFunc(common, name.is) {
			return nil, fmt.Errorf("the name %s", name)
		}
	}
	for _, cn := range commonNames(cert.Subject) {
		if !hasFold(common, cn) && !slices.ContainsFunc(asked, func(n name) bool { return n.is(cn) }) {
			return nil, fmt.Errorf("the common name %q", cn)
		}
	}
	for _, name := range asked {
		if !slices.Contains(got, name) {
			missing = append(missing, name.String())
		}
	}
	for _, cn := range common {
		if !hasFold(commonNames(cert.Subject), cn) {
			missing = append(missing, fmt.Sprintf("CN=%s", cn))
		}
	}
	return missing, nil
}

// hasFold ignores case: CAs write common names that are host names in small letters.
func hasFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(one string) bool { return strings.EqualFold(one, name) })
}

// List shows the first names of many.
func List(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func commonNames(subject pkix.Name) []string {
	var names []string
	for _, attribute := range subject.Names {
		if text, ok := attribute.Value.(string); ok && attribute.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) && text != "" {
			names = append(names, text)
		}
	}
	return names
}

// name is an alternative name of any kind, in a form that can be compared.
type name struct {
	tag   int
	value string
}

// The tags of a GeneralName (RFC 5280 section 4.2.1.6).
const (
	tagEmail = 1
	tagDNS   = 2
	tagURI   = 6
	tagIP    = 7
)

// is reports whether a name has the text of a common name.
func (n name) is(text string) bool {
	switch n.tag {
	case tagDNS:
		return n.value == strings.ToLower(text)
	case tagEmail, tagURI:
		return n.value == text
	case tagIP:
		return net.IP(n.value).String() == text
	}
	return false
}

func (n name) String() string {
	switch n.tag {
	case tagDNS, tagEmail, tagURI:
		return fmt.Sprintf("%q", n.value)
	case tagIP:
		return net.IP(n.value).String()
	}
	return fmt.Sprintf("of kind %d", n.tag)
}

// alternativeNames returns the names of all kinds in the extensions of a request
// or a certificate.
func alternativeNames(extensions []pkix.Extension) ([]name, error) {
	var names []name
	for _, extension := range extensions {
		if !extension.Id.Equal(pki.OIDSubjectAltName) {
			continue
		}
		var raw []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &raw); err != nil || len(rest) > 0 {
			return nil, errors.New("the subjectAltName extension is malformed")
		}
		for _, one := range raw {
			names = append(names, nameOf(one))
		}
	}
	return names, nil
}

func nameOf(raw asn1.RawValue) name {
	n := name{tag: raw.Tag, value: string(raw.Bytes)}
	switch n.tag {
	case tagDNS:
		n.value = strings.ToLower(n.value)
	case tagIP:
		if short := net.IP(n.value).To4(); short != nil {
			n.value = string(short)
		}
	case tagURI:
		if parsed, err := url.Parse(n.value); err == nil {
			n.value = parsed.String()
		}
	}
	return n
}
