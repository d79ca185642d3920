package kubelet_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki/kubelet"
)

// usage stands for the usage types of the APIs that call this package.
type usage string

const (
	signature    usage = "digital signature"
	encipherment usage = "key encipherment"
	clientAuth   usage = "client auth"
	serverAuth   usage = "server auth"
)

type testCase struct {
	reason string
	change func(*x509.CertificateRequest)
	usages []usage
	want   string
}

func TestValidateClient(t *testing.T) {
	good := []usage{signature, encipherment, clientAuth}
	mismatch := "usages did not match [client auth digital signature key encipherment]"
	tests := []testCase{
		{reason: "the shape itself"},
		{reason: "EC keys cannot encipher", usages: []usage{signature, clientAuth}},
		{reason: "usages are a set", usages: []usage{clientAuth, signature, clientAuth, encipherment}},
		{reason: "only the prefix of the name counts", change: commonName("system:node:")},

		{reason: "no organization", change: organizations(), want: "subject organization is not system:nodes"},
		{reason: "other organization", change: organizations("other"), want: "subject organization is not system:nodes"},
		{reason: "second organization", change: organizations("system:nodes", "system:masters"), want: "subject organization is not system:nodes"},
		{reason: "DNS name", change: addDNS, want: "DNS subjectAltNames are not allowed"},
		{reason: "e-mail name", change: addEmail, want: "Email subjectAltNames are not allowed"},
		{reason: "IP name", change: addIP, want: "IP subjectAltNames are not allowed"},
		{reason: "URI name", change: addURI, want: "URI subjectAltNames are not allowed"},
		{reason: "other common name", change: commonName("alice"), want: "subject common name does not begin with system:node:"},
		{reason: "no usages", usages: []usage{}, want: mismatch},
		{reason: "usage of the other shape", usages: []usage{signature, encipherment, serverAuth}, want: mismatch},
		{reason: "one usage more", usages: append([]usage{serverAuth}, good...), want: mismatch},
		{reason: "one usage less", usages: []usage{encipherment, clientAuth}, want: mismatch},
		{reason: "signing is not digital signature here", usages: []usage{"signing", clientAuth}, want: mismatch},

		{reason: "order: organization before names", change: all(organizations("other"), addDNS), want: "subject organization is not system:nodes"},
		{reason: "order: DNS before e-mail", change: all(addEmail, addDNS), want: "DNS subjectAltNames are not allowed"},
		{reason: "order: e-mail before IP", change: all(addIP, addEmail), want: "Email subjectAltNames are not allowed"},
		{reason: "order: IP before URI", change: all(addURI, addIP), want: "IP subjectAltNames are not allowed"},
		{reason: "order: URI before common name", change: all(commonName("alice"), addURI), want: "URI subjectAltNames are not allowed"},
		{reason: "order: common name before usages", change: commonName("alice"), usages: []usage{serverAuth}, want: "subject common name does not begin with system:node:"},
	}
	run(t, tests, good, &x509.CertificateRequest{}, kubelet.ValidateClient[usage])
}

func TestValidateServing(t *testing.T) {
	good := []usage{signature, encipherment, serverAuth}
	mismatch := "usages did not match [digital signature key encipherment server auth]"
	tests := []testCase{
		{reason: "the shape itself"},
		{reason: "EC keys cannot encipher", usages: []usage{signature, serverAuth}},
		{reason: "an IP name is enough", change: all(dropDNS, addIP)},
		{reason: "only the prefix of the name counts", change: commonName("system:node:")},

		{reason: "other organization", change: organizations("other"), want: "subject organization is not system:nodes"},
		{reason: "no names", change: dropDNS, want: "DNS or IP subjectAltName is required"},
		{reason: "e-mail name", change: addEmail, want: "Email subjectAltNames are not allowed"},
		{reason: "URI name", change: addURI, want: "URI subjectAltNames are not allowed"},
		{reason: "usage of the other shape", usages: []usage{signature, encipherment, clientAuth}, want: mismatch},
		{reason: "one usage more", usages: append([]usage{clientAuth}, good...), want: mismatch},
		{reason: "other common name", change: commonName("alice"), want: "subject common name does not begin with system:node:"},

		{reason: "order: organization before names", change: all(organizations(), dropDNS), want: "subject organization is not system:nodes"},
		{reason: "order: presence before e-mail", change: all(dropDNS, addEmail), want: "DNS or IP subjectAltName is required"},
		{reason: "order: e-mail before URI", change: all(addURI, addEmail), want: "Email subjectAltNames are not allowed"},
		{reason: "order: URI before usages", change: addURI, usages: []usage{clientAuth}, want: "URI subjectAltNames are not allowed"},
		{reason: "order: usages before common name", change: commonName("alice"), usages: []usage{clientAuth}, want: mismatch},
	}
	run(t, tests, good, &x509.CertificateRequest{DNSNames: []string{"node1"}}, kubelet.ValidateServing[usage])
}

func TestValidateNodeName(t *testing.T) {
	const wrong = "subject common name has no valid node name after system:node:"
	tests := []testCase{
		{reason: "a name", change: commonName("system:node:worker-1")},
		{reason: "a domain", change: commonName("system:node:worker-1.zone-a.example.com")},
		{reason: "digits", change: commonName("system:node:10.0.0.1")},
		{reason: "the longest", change: commonName("system:node:" + strings.Repeat("a", 253))},

		{reason: "no name", change: commonName("system:node:"), want: wrong},
		{reason: "too long", change: commonName("system:node:" + strings.Repeat("a", 254)), want: wrong},
		{reason: "capitals", change: commonName("system:node:Worker"), want: wrong},
		{reason: "a prefix twice", change: commonName("system:node:system:node:a"), want: wrong},
		{reason: "another line", change: commonName("system:node:a\n"), want: wrong},
		{reason: "hyphen at the end", change: commonName("system:node:a-"), want: wrong},
		{reason: "hyphen at the begin", change: commonName("system:node:-a"), want: wrong},
		{reason: "empty label", change: commonName("system:node:a..b"), want: wrong},
		{reason: "underscore", change: commonName("system:node:a_b"), want: wrong},
	}
	run(t, tests, nil, &x509.CertificateRequest{}, func(req *x509.CertificateRequest, _ []usage) error { return kubelet.ValidateNodeName(req) })
}

func run(t *testing.T, tests []testCase, usages []usage, base *x509.CertificateRequest, validate func(*x509.CertificateRequest, []usage) error) {
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			req := *base
			req.Subject = pkix.Name{CommonName: "system:node:node1", Organization: []string{"system:nodes"}}
			if tc.change != nil {
				tc.change(&req)
			}
			if tc.usages == nil {
				tc.usages = usages
			}
			if got := text(validate(&req, tc.usages)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func all(changes ...func(*x509.CertificateRequest)) func(*x509.CertificateRequest) {
	return func(req *x509.CertificateRequest) {
		for _, change := range changes {
			change(req)
		}
	}
}

func organizations(names ...string) func(*x509.CertificateRequest) {
	return func(req *x509.CertificateRequest) { req.Subject.Organization = names }
}

func commonName(name string) func(*x509.CertificateRequest) {
	return func(req *x509.CertificateRequest) { req.Subject.CommonName = name }
}

func dropDNS(req *x509.CertificateRequest)  { req.DNSNames = nil }
func addDNS(req *x509.CertificateRequest)   { req.DNSNames = []string{"node1"} }
func addEmail(req *x509.CertificateRequest) { req.EmailAddresses = []string{"node@example.com"} }
func addIP(req *x509.CertificateRequest)    { req.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }
func addURI(req *x509.CertificateRequest) {
	req.URIs = []*url.URL{{Scheme: "spiffe", Host: "example.com"}}
}
