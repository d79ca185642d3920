package profile

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	apiasn1 "k8s.io/apimachinery/pkg/apis/asn1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

func (p *Profile) decideSubject(cert *Certificate, ev evaluation, f request.Request) *Refusal {
	if p.subject.fromRequest {
		cert.Subject, cert.RawSubject = f.PKCS10.Subject, f.PKCS10.RawSubject
	} else if refusal := p.makeSubject(cert, ev); refusal != nil {
		return refusal
	}
	return p.checkSubject(cert.Subject)
}

func (p *Profile) makeSubject(cert *Certificate, ev evaluation) *Refusal {
	var name pkix.Name
	var refusal *Refusal
	if name.CommonName, refusal = ev.string(p.subject.commonName); refusal != nil {
		return refusal
	}
	if name.Organization, refusal = ev.strings(p.subject.organizations); refusal != nil {
		return refusal
	}
	if name.OrganizationalUnit, refusal = ev.strings(p.subject.organizationalUnits); refusal != nil {
		return refusal
	}
	subject, raw, err := encode(name)
	if err != nil {
		return refuse(ReasonSubject, p.at("subject"), "the subject cannot be written: %v", err)
	}
	cert.Subject, cert.RawSubject = subject, raw
	return nil
}

// encode returns name in DER, and as it will be parsed from a certificate.
func encode(name pkix.Name) (pkix.Name, []byte, error) {
	raw, err := asn1.Marshal(name.ToRDNSequence())
	if err != nil {
		return pkix.Name{}, nil, err
	}
	var sequence pkix.RDNSequence
	if _, err := asn1.Unmarshal(raw, &sequence); err != nil {
		return pkix.Name{}, nil, err
	}
	var read pkix.Name
	read.FillFromRDNSequence(&sequence)
	return read, raw, nil
}

// checkSubject also refuses subjects that tools do not show completely: of
// several common names tools show only one, and they do not show the attribute
// for the UID of a Kubernetes user, which API servers trust.
func (p *Profile) checkSubject(subject pkix.Name) *Refusal {
	commonNames := 0
	for _, attribute := range subject.Names {
		value, isText := attribute.Value.(string)
		if attribute.Type.Equal(pki.OIDCommonName) {
			commonNames++
		}
		switch {
		case commonNames > 1:
			return refuse(ReasonSubject, p.at("subject"), "the subject has more than one common name")
		case attribute.Type.Equal(apiasn1.X509UID()):
			return refuse(ReasonSubject, p.at("subject"), "the subject's attribute %v (Kubernetes user UID) is not permitted", attribute.Type)
		case !isText:
			return refuse(ReasonSubject, p.at("subject"), "the subject's attribute %v is not text", attribute.Type)
		case value == "":
			return refuse(ReasonSubject, p.at("subject"), "the subject's attribute %v is empty", attribute.Type)
		case strings.ContainsFunc(value, unicode.IsControl):
			return refuse(ReasonSubject, p.at("subject"), "the subject's attribute %v contains a control character", attribute.Type)
		}
	}
	if p.privileged && slices.Contains(subject.Organization, pki.Masters) {
		return refuse(ReasonSubject, p.at("subject"), "a Signer with the CA that API servers trust cannot issue certificates of the group %s", pki.Masters)
	}
	return nil
}

func (p *Profile) decideNames(cert *Certificate, ev evaluation) *Refusal {
	var refusal *Refusal
	if cert.DNSNames, refusal = each(ev, p.names.dns, parseDNSName); refusal != nil {
		return refusal
	}
	if cert.IPAddresses, refusal = each(ev, p.names.ips, parseIP); refusal != nil {
		return refusal
	}
	if cert.URIs, refusal = each(ev, p.names.uris, parseURI); refusal != nil {
		return refusal
	}
	if cert.EmailAddresses, refusal = each(ev, p.names.emails, parseEmail); refusal != nil {
		return refusal
	}
	return p.checkSPIFFE(cert)
}

// checkNamed comes last: the errors about requested names are more specific.
func (p *Profile) checkNamed(cert *Certificate, _ request.Request) *Refusal {
	if len(cert.Subject.Names) == 0 && len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.URIs)+len(cert.EmailAddresses) == 0 {
		return refuse(ReasonNameless, p.at("names"), "the signer has neither a subject nor a name for this request")
	}
	return nil
}

// each parses the values of e.
func each[T any](ev evaluation, e *compiled, parse func(string) (T, error)) ([]T, *Refusal) {
	texts, refusal := ev.strings(e)
	if refusal != nil {
		return nil, refusal
	}
	var parsed []T
	for _, text := range texts {
		one, err := parse(text)
		if err != nil {
			return nil, refuse(ReasonNames, e.field, "%v", err)
		}
		parsed = append(parsed, one)
	}
	return parsed, nil
}

func parseDNSName(text string) (string, error) {
	if !pki.ValidDNSName(strings.TrimPrefix(text, "*.")) {
		return "", fmt.Errorf("%q is not a valid DNS name", text)
	}
	return text, nil
}

func parseIP(text string) (net.IP, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return nil, fmt.Errorf("%q is not a valid IP address", text)
	}
	return address.Unmap().AsSlice(), nil
}

// parseURI accepts only URIs that verifiers can compare: an absolute URI that
// is unchanged when it is parsed and formatted again.
func parseURI(text string) (*url.URL, error) {
	uri, err := url.Parse(text)
	if err != nil || !uri.IsAbs() || uri.String() != text || uri.Opaque == "" && uri.Host == "" && uri.Path == "" {
		return nil, fmt.Errorf("%q is not an absolute URI", text)
	}
	if strings.ContainsFunc(text, func(c rune) bool { return c > unicode.MaxASCII }) {
		return nil, fmt.Errorf("%q is not a valid URI: it contains characters other than ASCII", text)
	}
	return uri, nil
}

func parseEmail(text string) (string, error) {
	if !pki.ValidMailbox(text) {
		return "", fmt.Errorf("%q is not a valid e-mail address", text)
	}
	return text, nil
}
