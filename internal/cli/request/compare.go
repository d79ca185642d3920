package request

import (
	"bytes"
	"crypto/x509"
	"net"
	"net/url"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
)

// compare returns in which way a stored request is not the wanted one, or "".
// The encoded requests cannot be compared as bytes: signatures are random.
func compare(stored, wanted *certificatesv1.CertificateSigningRequest) string {
	a, err := pki.ParseRequest(stored.Spec.Request)
	if err != nil {
		return "an unreadable request inside"
	}
	b, err := pki.ParseRequest(wanted.Spec.Request)
	if err != nil {
		return "an unreadable counterpart"
	}
	switch {
	case !pki.SameKey(a.PublicKey, b.PublicKey):
		return "another key"
	case stored.Spec.SignerName != wanted.Spec.SignerName:
		return "another signer, " + stored.Spec.SignerName
	case !bytes.Equal(a.RawSubject, b.RawSubject):
		return "another subject, " + a.Subject.String()
	case !slices.Equal(alternativeNames(a), alternativeNames(b)):
		return "other alternative names"
	case !sameUsages(stored.Spec.Usages, wanted.Spec.Usages):
		return "other usages"
	case !sameDuration(stored.Spec.ExpirationSeconds, wanted.Spec.ExpirationSeconds):
		return "another duration"
	}
	return ""
}

func alternativeNames(req *x509.CertificateRequest) []string {
	return sortedNames(req.DNSNames, req.IPAddresses, req.URIs, req.EmailAddresses)
}

// sortedNames writes all kinds of names so that none can be taken for another kind's.
func sortedNames(dns []string, ips []net.IP, uris []*url.URL, emails []string) []string {
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
	slices.Sort(names)
	return slices.Compact(names)
}

// sameUsages compares as sets: order and repeats mean nothing.
func sameUsages(a, b []certificatesv1.KeyUsage) bool {
	set := func(usages []certificatesv1.KeyUsage) []certificatesv1.KeyUsage {
		return slices.Compact(slices.Sorted(slices.Values(usages)))
	}
	return slices.Equal(set(a), set(b))
}

func sameDuration(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
