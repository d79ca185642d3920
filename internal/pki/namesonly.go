package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// maxCommonName is the longest common name (RFC 5280 appendix A.1).
const maxCommonName = 64

// NamesOnly returns the parts of a request that an ACME client can ask for: its key, its DNS
// names and IP addresses, and a common name that is one of them (RFC 8555 section 7.4). A
// name in the subject counts as an alternative name. Each name appears once, in its
// canonical form. All other content is dropped: other attributes of the subject, other names
// and all other extensions. The proof that the requester has the key stays.
func NamesOnly(r *Request) (*Request, error) {
	var names AltNames
	dns := func(name string) {
		if name = HostName(name); !slices.Contains(names.DNSNames, name) {
			names.DNSNames = append(names.DNSNames, name)
		}
	}
	ip := func(address net.IP) {
		if short := address.To4(); short != nil {
			address = short
		}
		if !slices.ContainsFunc(names.IPAddresses, address.Equal) {
			names.IPAddresses = append(names.IPAddresses, address)
		}
	}
	for _, name := range r.DNSNames {
		dns(name)
	}
	for _, address := range r.IPAddresses {
		ip(address)
	}
	common := ""
	for _, text := range CommonNames(r.Subject) {
		address, notAddress := netip.ParseAddr(text)
		switch {
		case notAddress == nil && address.Zone() == "":
			text = address.Unmap().String()
			ip(address.Unmap().AsSlice())
		case ValidDNSName(strings.TrimPrefix(HostName(text), "*.")):
			text = HostName(text)
			dns(text)
		default:
			continue
		}
		if common == "" && len(text) <= maxCommonName {
			common = text
		}
	}
	return r.with(common, names)
}

// HostName returns the usual spelling of a DNS name: lower case, without a dot at its end.
func HostName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// with returns the request with another content and the same proof.
func (r *Request) with(commonName string, names AltNames) (*Request, error) {
	subject := pkix.Name{CommonName: commonName}
	raw, err := EncodeDN(subject.ToRDNSequence())
	if err != nil {
		return nil, fmt.Errorf("encoding the common name: %w", err)
	}
	if commonName != "" {
		subject.Names = []pkix.AttributeTypeAndValue{{Type: OIDCommonName, Value: commonName}}
	}
	req := &x509.CertificateRequest{
		Raw: r.Raw, RawTBSCertificateRequest: r.RawTBSCertificateRequest, RawSubjectPublicKeyInfo: r.RawSubjectPublicKeyInfo,
		Version: r.Version, Signature: r.Signature, SignatureAlgorithm: r.SignatureAlgorithm,
		PublicKeyAlgorithm: r.PublicKeyAlgorithm, PublicKey: r.PublicKey,
		RawSubject: raw, Subject: subject, DNSNames: names.DNSNames, IPAddresses: names.IPAddresses,
	}
	value, err := names.encode()
	if err != nil {
		return nil, fmt.Errorf("encoding the names: %w", err)
	}
	if value != nil {
		req.Extensions = []pkix.Extension{{Id: OIDSubjectAltName, Value: value}}
	}
	return ReadRequest(req), nil
}

// CommonNames returns the common names of a subject that are texts, in their order.
func CommonNames(subject pkix.Name) []string {
	var names []string
	for _, attribute := range subject.Names {
		if text, isText := attribute.Value.(string); isText && attribute.Type.Equal(OIDCommonName) {
			names = append(names, text)
		}
	}
	return names
}
