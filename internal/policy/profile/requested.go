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

// checkWishes refuses requests for more than cert contains.
func (p *Profile) checkWishes(cert *Certificate, f request.Request) *Refusal {
	asked := f.PKCS10
	if asked == nil {
		return nil
	}
	if refusal := p.checkSubjectWish(cert, asked.CertificateRequest); refusal != nil {
		return refusal
	}
	if refusal := p.checkNameWishes(cert, asked.CertificateRequest); refusal != nil {
		return refusal
	}
	for _, extension := range asked.Extensions {
		if refusal := p.checkExtensionWish(cert, asked, extension.Id); refusal != nil {
			return refusal
		}
	}
	return nil
}

// checkSubjectWish refuses a request with another subject. A request may leave
// the subject to the signer.
func (p *Profile) checkSubjectWish(cert *Certificate, asked *x509.CertificateRequest) *Refusal {
	for _, wish := range asked.Subject.Names {
		if !slices.ContainsFunc(cert.Subject.Names, func(has pkix.AttributeTypeAndValue) bool {
			return has.Type.Equal(wish.Type) && sameText(has.Value, wish.Value)
		}) {
			return refuse(ReasonSubject, p.at("subject"), "the request asks for the subject %q, and the signer issues %q: request that or an empty subject",
				asked.Subject, cert.Subject)
		}
	}
	return nil
}

func (p *Profile) checkNameWishes(cert *Certificate, asked *x509.CertificateRequest) *Refusal {
	if wish, ok := missing(asked.DNSNames, cert.DNSNames, strings.EqualFold); ok {
		return p.refuseName("dnsNames", "DNS name", wish)
	}
	if wish, ok := missing(asked.IPAddresses, cert.IPAddresses, net.IP.Equal); ok {
		return p.refuseName("ipAddresses", "IP address", wish.String())
	}
	if wish, ok := missing(asked.URIs, cert.URIs, sameURI); ok {
		return p.refuseName("uris", "URI", wish.String())
	}
	if wish, ok := missing(asked.EmailAddresses, cert.EmailAddresses, func(a, b string) bool { return a == b }); ok {
		return p.refuseName("emailAddresses", "e-mail address", wish)
	}
	return nil
}

func (p *Profile) refuseName(field, kind, name string) *Refusal {
	return refuse(ReasonNames, p.at("names", field), "the signer does not issue the %s %q to this request", kind, name)
}

func missing[T any](wishes, has []T, same func(T, T) bool) (first T, is bool) {
	for _, wish := range wishes {
		if !slices.ContainsFunc(has, func(h T) bool { return same(wish, h) }) {
			return wish, true
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

func (p *Profile) checkExtensionWish(cert *Certificate, asked *pki.Request, wish asn1.ObjectIdentifier) *Refusal {
	granted := false
	switch {
	case wish.Equal(pki.OIDSubjectAltName):
		granted = asked.OtherNames.Err == nil && len(asked.OtherNames.Value) == 0
	case wish.Equal(pki.OIDBasicConstraints):
		return p.checkCAWish(asked)
	case wish.Equal(pki.OIDKeyUsage):
		granted = asked.KeyUsage.Err == nil && asked.KeyUsage.Value&^cert.Usages.Key == 0
	case wish.Equal(pki.OIDExtKeyUsage):
		granted = asked.ExtKeyUsage.Err == nil && hasPurposes(cert.Usages.Extended, asked.ExtKeyUsage.Value)
	}
	if granted || p.ignoreOther {
		return nil
	}
	return refuse(ReasonExtensions, p.at("extensions"), "the request contains %s, which the certificate would not contain: leave it out", describe(wish))
}

func describe(id asn1.ObjectIdentifier) string {
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

func (p *Profile) checkCAWish(asked *pki.Request) *Refusal {
	if asked.CA.Err == nil && !asked.CA.Value.IsCA || p.ignoreCAs {
		return nil
	}
	return refuse(ReasonCA, p.at("certificateAuthorities"), "the request asks for a CA certificate, and the signer issues none")
}
