package profile

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// checkRequested refuses requests for more than cert contains.
func (p *Profile) checkRequested(cert *Certificate, f request.Request) *Refusal {
	requested := f.PKCS10
	if requested == nil {
		return nil
	}
	if refusal := p.checkRequestedSubject(cert, requested.CertificateRequest); refusal != nil {
		return refusal
	}
	if refusal := p.checkRequestedNames(cert, requested.CertificateRequest); refusal != nil {
		return refusal
	}
	for _, extension := range requested.Extensions {
		if refusal := p.checkRequestedExtension(cert, requested, extension.Id); refusal != nil {
			return refusal
		}
	}
	return nil
}

// checkRequestedSubject refuses a request with another subject. A request may
// leave the subject to the signer.
func (p *Profile) checkRequestedSubject(cert *Certificate, requested *x509.CertificateRequest) *Refusal {
	for _, attribute := range requested.Subject.Names {
		if !slices.ContainsFunc(cert.Subject.Names, func(has pkix.AttributeTypeAndValue) bool {
			return has.Type.Equal(attribute.Type) && sameText(has.Value, attribute.Value)
		}) {
			return refuse(ReasonSubject, p.at("subject"), "the request asks for the subject %q, and the signer issues %q: request that or an empty subject",
				requested.Subject, cert.Subject)
		}
	}
	return nil
}

func (p *Profile) checkRequestedNames(cert *Certificate, requested *x509.CertificateRequest) *Refusal {
	if name, ok := firstMissing(requested.DNSNames, cert.DNSNames, strings.EqualFold); ok {
		return p.refuseName("dnsNames", "DNS name", name)
	}
	if name, ok := firstMissing(requested.IPAddresses, cert.IPAddresses, net.IP.Equal); ok {
		return p.refuseName("ipAddresses", "IP address", name.String())
	}
	if name, ok := firstMissing(requested.URIs, cert.URIs, sameURI); ok {
		return p.refuseName("uris", "URI", name.String())
	}
	if name, ok := firstMissing(requested.EmailAddresses, cert.EmailAddresses, func(a, b string) bool { return a == b }); ok {
		return p.refuseName("emailAddresses", "e-mail address", name)
	}
	return nil
}

func (p *Profile) refuseName(field, kind, name string) *Refusal {
	return refuse(ReasonNames, p.at("names", field), "the signer does not issue the %s %q to this request", kind, name)
}

func firstMissing[T any](requested, issued []T, same func(T, T) bool) (first T, ok bool) {
	for _, name := range requested {
		if !slices.ContainsFunc(issued, func(other T) bool { return same(name, other) }) {
			return name, true
		}
	}
	return first, false
}

// sameText reports whether a and b are equal strings. A value that is not a
// string equals nothing.
func sameText(a, b any) bool {
	x, ok := a.(string)
	y, also := b.(string)
	return ok && also && x == y
}

func sameURI(a, b *url.URL) bool { return a.String() == b.String() }

func (p *Profile) checkRequestedExtension(cert *Certificate, requested *pki.Request, id asn1.ObjectIdentifier) *Refusal {
	granted := false
	switch {
	case id.Equal(pki.OIDSubjectAltName):
		granted = requested.OtherNames.Err == nil && len(requested.OtherNames.Value) == 0
	case id.Equal(pki.OIDBasicConstraints):
		return p.checkRequestedCA(requested)
	case id.Equal(pki.OIDSubjectKeyID):
		granted = true // each certificate has one, by the method of this CA (RFC 5280 section 4.2.1.2)
	case id.Equal(pki.OIDKeyUsage):
		granted = requested.KeyUsage.Err == nil && requested.KeyUsage.Value&^cert.Usages.Key == 0
	case id.Equal(pki.OIDExtKeyUsage):
		granted = requested.ExtKeyUsage.Err == nil && hasPurposes(cert.Usages.Extended, requested.ExtKeyUsage.Value)
	}
	if granted || p.ignoreOther {
		return nil
	}
	return refuse(ReasonExtensions, p.at("extensions"), "the request contains %s, which the certificate would not contain: leave it out", describeExtension(id))
}

func describeExtension(id asn1.ObjectIdentifier) string {
	switch {
	case id.Equal(pki.OIDSubjectAltName):
		return "alternative names other than DNS, IP, URI and e-mail"
	case id.Equal(pki.OIDKeyUsage):
		return "key usages"
	case id.Equal(pki.OIDExtKeyUsage):
		return "extended key usages"
	}
	return "the extension " + id.String()
}

func (p *Profile) checkRequestedCA(requested *pki.Request) *Refusal {
	if requested.CA.Err == nil && !requested.CA.Value.IsCA || p.ignoreCAs {
		return nil
	}
	return refuse(ReasonCA, p.at("certificateAuthorities"), "the request asks for a CA certificate, and the signer issues none")
}
