package sources

import (
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/names"
	"github.com/certplane/certplane/internal/policy/request"
)

// Name is a subject alternative name, in one of the fields of subject.
type Name struct {
	text    string
	kind    string // as text
	subject pki.Subject
	// acme is the identifier in ACME orders; empty if ACME clients cannot order it.
	acme rfc8555.Identifier
}

// ParseName parses a DNS name, which can be a wildcard, an IP address, an e-mail address
// or a URI.
func ParseName(text string) (Name, error) {
	n := Name{text: text}
	if ip := net.ParseIP(text); ip != nil {
		n.kind, n.subject.IPAddresses, n.acme = "IP address", []net.IP{ip}, rfc8555.Identifier{Type: rfc8555.IdentifierIP, Value: ip.String()}
		return n, nil
	}
	if strings.Contains(text, ":") {
		uri, err := url.Parse(text)
		if err != nil || uri.Host == "" && uri.Scheme != "urn" {
			return n, fmt.Errorf("%q is not a URI: want one with a scheme, such as spiffe://corp.example/web", text)
		}
		n.kind, n.subject.URIs = "URI", []*url.URL{uri}
		return n, nil
	}
	if strings.Contains(text, "@") {
		if address, err := mail.ParseAddress(text); err != nil || address.Address != text {
			return n, fmt.Errorf("%q is not an e-mail address", text)
		}
		n.kind, n.subject.EmailAddresses = "e-mail address", []string{text}
		return n, nil
	}
	below, isWildcard := names.CutWildcard(text)
	if err := names.CheckDNSName(below); err != nil {
		return n, fmt.Errorf("%q is not a DNS name, an IP address, an e-mail address or a URI: as a DNS name, it %w", text, err)
	}
	if n.kind = "DNS name"; isWildcard {
		n.kind = "wildcard DNS name"
	}
	n.subject.DNSNames, n.acme = []string{text}, rfc8555.Identifier{Type: rfc8555.IdentifierDNS, Value: text}
	return n, nil
}

// fieldOf returns the value of the field for the kind of the name.
func fieldOf[T any](n Name, dns, ip, uri, email T) T {
	switch {
	case len(n.subject.DNSNames) > 0:
		return dns
	case len(n.subject.IPAddresses) > 0:
		return ip
	case len(n.subject.URIs) > 0:
		return uri
	default:
		return email
	}
}

// sampleRequester requests samples. It is in no group that a policy names.
const sampleRequester = "somebody"

// keys are the types of keys of samples, in the order in which they are tried.
var keys = []struct {
	name v1alpha1.KeyType
	kind pki.KeyType
}{{"ECDSAP256", pki.ECDSAP256}, {"ED25519", pki.Ed25519}, {"ECDSAP384", pki.ECDSAP384}, {"RSA3072", pki.RSA3072}, {"RSA4096", pki.RSA4096}}

// sample returns a request with only this name, and an empty subject.
func (n Name) sample(signerName string, usages []string, permitted []v1alpha1.KeyType, now time.Time) (request.Request, error) {
	kind := pki.ECDSAP256
	for _, k := range keys {
		if len(permitted) == 0 || slices.Contains(permitted, k.name) {
			kind = k.kind
			break
		}
	}
	key, err := pki.GenerateKey(kind)
	if err != nil {
		return request.Request{}, err
	}
	data, err := pki.NewRequest(n.subject, key)
	if err != nil {
		return request.Request{}, fmt.Errorf("making a request for %s: %w", n.text, err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "sample", CreationTimestamp: metav1.NewTime(now)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: data, SignerName: signerName, Username: sampleRequester, Groups: []string{"system:authenticated"},
		},
	}
	for _, usage := range usages {
		csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.KeyUsage(usage))
	}
	return request.FromCSR(csr), nil
}
