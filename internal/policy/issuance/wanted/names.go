package wanted

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/pki"
)

// names are alternative names in a canonical text form, to compare them as
// strings.
type names struct{ dns, ips, uris, emails, others []string }

// differences returns the fields of a Certificate in which its names n differ
// from got.
func (n names) differences(got names) []string {
	var differences []string
	for _, c := range []struct {
		field string
		a, b  []string
	}{
		{"spec.dnsNames", lower(n.dns), lower(got.dns)},
		{"spec.ipAddresses", n.ips, got.ips},
		{"spec.uris", n.uris, got.uris},
		{"spec.emailAddresses", n.emails, got.emails},
		{"spec.otherNames", n.others, got.others},
	} {
		if !sameSet(c.a, c.b) {
			differences = append(differences, c.field)
		}
	}
	return differences
}

// lower returns DNS names in the form for comparisons: in lower case.
func lower(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, strings.ToLower(name))
	}
	return all
}

func namesOf(spec *cmv1.CertificateSpec) names {
	n := names{dns: spec.DNSNames, emails: spec.EmailAddresses}
	for _, ip := range spec.IPAddresses {
		n.ips = append(n.ips, canonicalIP(ip))
	}
	for _, uri := range spec.URIs {
		n.uris = append(n.uris, canonicalURI(uri))
	}
	for _, other := range spec.OtherNames {
		n.others = append(n.others, canonicalOID(other.OID)+"="+other.UTF8Value)
	}
	return n
}

func namesOfRequest(csr *x509.CertificateRequest) (names, error) {
	others, err := pki.OtherNames(csr.Extensions)
	if err != nil {
		return names{}, err
	}
	return names{dns: csr.DNSNames, emails: csr.EmailAddresses, ips: texts(csr.IPAddresses), uris: texts(csr.URIs), others: texts(others)}, nil
}

func namesOfCertificate(cert *x509.Certificate) names {
	return names{dns: cert.DNSNames, emails: cert.EmailAddresses, ips: texts(cert.IPAddresses), uris: texts(cert.URIs)}
}

func texts[T fmt.Stringer](values []T) []string {
	var texts []string
	for _, value := range values {
		texts = append(texts, value.String())
	}
	return texts
}

// canonicalIP returns text that cannot be parsed unchanged: it equals no
// address.
func canonicalIP(text string) string {
	if ip := net.ParseIP(text); ip != nil {
		return ip.String()
	}
	return text
}

// canonicalOID returns an object identifier without leading zeros.
func canonicalOID(text string) string {
	if id, err := pki.ParseOID(text); err == nil {
		return id.String()
	}
	return text
}

func canonicalURI(text string) string {
	if uri, err := url.Parse(text); err == nil {
		return uri.String()
	}
	return text
}
