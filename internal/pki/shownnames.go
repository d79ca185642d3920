package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/url"
	"slices"
)

// RequestNames returns the sorted subject alternative names of a request, each
// prefixed with its kind, so that names of different kinds cannot be confused.
func RequestNames(req *Request) []string {
	return names(req.DNSNames, req.IPAddresses, req.URIs, req.EmailAddresses, req.Extensions)
}

// CertificateNames is like RequestNames, for a certificate.
func CertificateNames(cert *x509.Certificate) []string {
	return names(cert.DNSNames, cert.IPAddresses, cert.URIs, cert.EmailAddresses, cert.Extensions)
}

func names(dns []string, ips []net.IP, uris []*url.URL, emails []string, extensions []pkix.Extension) []string {
	var names []string
	for _, d := range dns {
		names = append(names, "DNS:"+d)
	}
	for _, ip := range ips {
		names = append(names, "IP:"+ip.String())
	}
	for _, uri := range uris {
		names = append(names, "URI:"+uri.String())
	}
	for _, e := range emails {
		names = append(names, "email:"+e)
	}
	others, _ := OtherNames(extensions) // if some names are malformed, the others are shown
	for _, other := range others {
		names = append(names, "otherName:"+other.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// KeyName returns the name of the kind of a public key.
func KeyName(key any) string {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", key.N.BitLen())
	case *ecdsa.PublicKey:
		return "ECDSA " + key.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return "of an unknown kind"
}
