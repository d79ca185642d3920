package profile

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"slices"
	"strings"
)

// checkWishes refuses requests for more than cert contains.
func (p *Profile) checkWishes(cert *Certificate, f Facts) *Refusal {
	if f.Request == nil {
		return nil
	}
	if refusal := p.checkSubjectWish(cert, f.Request); refusal != nil {
		return refusal
	}
	if refusal := p.checkNameWishes(cert, f.Request); refusal != nil {
		return refusal
	}
	for _, extension := range f.Request.Extensions {
		if refusal := p.checkExtensionWish(cert, extension); refusal != nil {
			return refusal
		}
	}
	return nil
}

// checkSubjectWish: a request may leave the subject to the signer, but not
// name another one.
func (p *Profile) checkSubjectWish(cert *Certificate, asked *x509.CertificateRequest) *Refusal {
	for _, wish := range asked.Subject.Names {
		if !slices.ContainsFunc(cert.Subject.Names, func(has pkix.AttributeTypeAndValue) bool {
			return has.Type.Equal(wish.Type) && sameText(has.Value, wish.Value)
		}) {
			return refuse(ReasonSubject, p.at("subject"), "the request asks for the subject %q, and the signer gives %q: ask for this or for an empty one",
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
	return refuse(ReasonNames, p.at("names", field), "the signer does not give the %s %q to this request", kind, name)
}

func missing[T any](wishes, has []T, same func(T, T) bool) (first T, is bool) {
	for _, wish := range wishes {
		if !slices.ContainsFunc(has, func(h T) bool { return same(wish, h) }) {
			return wish, true
		}
	}
	return first, false
}

// sameText: what is no text is the same as nothing.
func sameText(a, b any) bool {
	x, ok := a.(string)
	y, also := b.(string)
	return ok && also && x == y
}

func sameURI(a, b *url.URL) bool { return a.String() == b.String() }

// The extensions of RFC 5280 section 4.2.1 for which a Signer has fields.
var (
	oidSubjectAltName   = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidExtKeyUsage      = asn1.ObjectIdentifier{2, 5, 29, 37}
)

func (p *Profile) checkExtensionWish(cert *Certificate, wish pkix.Extension) *Refusal {
	granted := false
	switch {
	case wish.Id.Equal(oidSubjectAltName):
		granted = onlyKnownNames(wish.Value)
	case wish.Id.Equal(oidBasicConstraints):
		return p.checkCAWish(wish.Value)
	case wish.Id.Equal(oidKeyUsage):
		bits, ok := readKeyUsage(wish.Value)
		granted = ok && bits&^cert.Usages.Key == 0
	case wish.Id.Equal(oidExtKeyUsage):
		granted = hasExtUsages(cert.Usages.Extended, wish.Value)
	}
	if granted || p.ignoreOther {
		return nil
	}
	return refuse(ReasonExtensions, p.at("extensions"), "the request contains %s, which the certificate would not: leave it out", describe(wish.Id))
}

func describe(id asn1.ObjectIdentifier) string {
	switch {
	case id.Equal(oidSubjectAltName):
		return "alternative names of other kinds than DNS, IP, URI and e-mail"
	case id.Equal(oidKeyUsage):
		return "key usages"
	case id.Equal(oidExtKeyUsage):
		return "extended key usages"
	}
	return "the extension " + id.String()
}

// onlyKnownNames tells whether a request for alternative names has none of the
// kinds that are not read: otherName, x400Address, directoryName, ediPartyName
// and registeredID of RFC 5280 section 4.2.1.6.
func onlyKnownNames(value []byte) bool {
	var names []asn1.RawValue
	if rest, err := asn1.Unmarshal(value, &names); err != nil || len(rest) > 0 {
		return false
	}
	known := []int{1, 2, 6, 7} // rfc822Name, dNSName, uniformResourceIdentifier, iPAddress
	return !slices.ContainsFunc(names, func(name asn1.RawValue) bool {
		return name.Class != asn1.ClassContextSpecific || !slices.Contains(known, name.Tag)
	})
}

func (p *Profile) checkCAWish(value []byte) *Refusal {
	var constraints struct {
		IsCA    bool `asn1:"optional"`
		PathLen int  `asn1:"optional,default:-1"`
	}
	rest, err := asn1.Unmarshal(value, &constraints)
	unreadable := err != nil || len(rest) > 0
	if !unreadable && !constraints.IsCA || p.ignoreCAs {
		return nil
	}
	return refuse(ReasonCA, p.at("certificateAuthorities"), "the request asks for a CA certificate, and the signer issues none")
}
