package profile_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
)

func TestDecideCSRs(t *testing.T) {
	uri, _ := url.Parse("spiffe://example.org/web")
	whole := x509.CertificateRequest{
		DNSNames: []string{"web.example.com"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}, URIs: []*url.URL{uri}, EmailAddresses: []string{"web@example.com"},
	}
	named := x509.CertificateRequest{Subject: pkix.Name{CommonName: "web", Country: []string{"AT"}}, DNSNames: []string{"web.example.com"}}
	extension := func(id asn1.ObjectIdentifier, value any) x509.CertificateRequest {
		der, err := asn1.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return x509.CertificateRequest{DNSNames: []string{"web.example.com"}, ExtraExtensions: []pkix.Extension{{Id: id, Value: der}}}
	}
	type constraints struct {
		IsCA bool `asn1:"optional"`
	}
	var (
		isCA      = extension(asn1.ObjectIdentifier{2, 5, 29, 19}, constraints{IsCA: true})
		isNoCA    = extension(asn1.ObjectIdentifier{2, 5, 29, 19}, constraints{})
		signs     = extension(asn1.ObjectIdentifier{2, 5, 29, 15}, asn1.BitString{Bytes: []byte{0x80}, BitLength: 1})
		agrees    = extension(asn1.ObjectIdentifier{2, 5, 29, 15}, asn1.BitString{Bytes: []byte{0x88}, BitLength: 5})
		serves    = extension(asn1.ObjectIdentifier{2, 5, 29, 37}, []asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 1}})
		stamps    = extension(asn1.ObjectIdentifier{2, 5, 29, 37}, []asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
		hashed    = extension(asn1.ObjectIdentifier{2, 5, 29, 14}, []byte("the requester's own method"))
		staples   = extension(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}, []int{5})
		otherName = extension(asn1.ObjectIdentifier{2, 5, 29, 17}, []asn1.RawValue{{Class: 2, Tag: 2, Bytes: []byte("web.example.com")}, {Class: 2, Tag: 8, Bytes: []byte{42, 3}}})
	)
	otherName.DNSNames = nil
	fromRequest := func(s *spec) { s.Profile.Subject.FromRequest = true }
	tests := []struct {
		reason  string
		request x509.CertificateRequest
		spec    func(*spec)
		facts   func(*facts)
		want    string
		refused profile.Refusal
	}{
		{reason: "all names", request: whole, want: "web.example.com 10.0.0.1 spiffe://example.org/web web@example.com"},
		{reason: "fewer names than are asked for", request: whole, spec: func(s *spec) { s.Profile.Names.DNSNames = `request.dnsNames.filter(n, n.endsWith(".internal"))` },
			refused: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.dnsNames", Message: `DNS name "web.example.com"`}},
		{reason: "no addresses", request: whole, spec: func(s *spec) { s.Profile.Names.IPAddresses = "" },
			refused: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.ipAddresses", Message: `IP address "10.0.0.1"`}},
		{reason: "no URIs", request: whole, spec: func(s *spec) { s.Profile.Names.URIs = "" },
			refused: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: `URI "spiffe://example.org/web"`}},
		{reason: "no mailboxes", request: whole, spec: func(s *spec) { s.Profile.Names.EmailAddresses = "" },
			refused: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.emailAddresses", Message: `e-mail address "web@example.com"`}},
		{reason: "a subject byte for byte", request: named, spec: fromRequest, want: "CN=web,C=AT web.example.com"},
		{reason: "a subject in vain", request: named,
			refused: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: `asks for the subject "CN=web,C=AT", and the signer issues ""`}},
		{reason: "part of a subject in vain", request: named, spec: func(s *spec) { s.Profile.Subject.CommonName = "request.subject.commonName" },
			refused: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: `issues "CN=web"`}},
		{reason: "the subject that there is anyway", request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "web"}}, spec: func(s *spec) { s.Profile.Subject.CommonName = `"web"` }, want: "CN=web"},
		{reason: "two common names", spec: fromRequest, request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "web", ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "web"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "admin"}}}},
			refused: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: "more than one common name"}},
		{reason: "a user's UID", spec: fromRequest, request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "web", ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "u"}}}},
			refused: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: "user UID"}},
		{reason: "rules about who asks", request: whole, spec: func(s *spec) {
			s.Profile.Rules = []v1alpha1.ProfileRule{{Expression: `request.dnsNames.all(n, requester.username == "host:" + n)`, MessageExpression: `requester.username + " is not " + request.dnsNames[0]`, Reason: "NotYours"}}
		}, refused: profile.Refusal{Reason: "NotYours", Field: "spec.profile.rules[0]", Message: "host:web1.example.com is not web.example.com"}},
		{reason: "rules with Kubernetes' libraries", request: whole, spec: func(s *spec) {
			s.Profile.Rules = []v1alpha1.ProfileRule{{Expression: `request.ipAddresses.all(a, cidr("10.0.0.0/8").containsIP(ip(a))) && url(request.uris[0]).getHostname() == "example.org" && ` +
				`request.dnsNames[0].matches("^[a-z.]+$") && "hosts" in requester.groups && sets.contains(["server auth", "digital signature"], request.usages)`}}
		}, want: "web.example.com 10.0.0.1 spiffe://example.org/web web@example.com"},

		{reason: "no usages", request: whole, facts: func(f *facts) { f.Usages = nil }, refused: profile.Refusal{Reason: "UsageNotPermitted", Field: "spec.profile.usages", Message: "asks for no usages"}},
		{reason: "another usage", request: whole, facts: func(f *facts) { f.Usages = append(f.Usages, "code signing") },
			refused: profile.Refusal{Reason: "UsageNotPermitted", Field: "spec.profile.usages", Message: `does not permit the usage "code signing": it permits digital signature, key encipherment, client auth, server auth`}},
		{reason: "two names of one usage", request: whole, facts: func(f *facts) { f.Usages = []string{"signing"} }, want: "web.example.com 10.0.0.1 spiffe://example.org/web web@example.com"},
		{reason: "no PKCS#10", request: whole, facts: func(f *facts) { f.PKCS10 = nil }, refused: profile.Refusal{Reason: "InvalidRequest", Field: "spec.profile", Message: "no PKCS#10"}},

		{reason: "a CA", request: isCA, refused: profile.Refusal{Reason: "CertificateAuthorityNotPermitted", Field: "spec.profile.certificateAuthorities", Message: "asks for a CA"}},
		{reason: "a CA that is to be none", request: isCA, spec: func(s *spec) { s.Profile.CertificateAuthorities = v1alpha1.IgnoreCAs }, want: "web.example.com"},
		{reason: "a CA, and only extensions are ignored", request: isCA, spec: func(s *spec) { s.Profile.Extensions = v1alpha1.IgnoreExtensions },
			refused: profile.Refusal{Reason: "CertificateAuthorityNotPermitted", Field: "spec.profile.certificateAuthorities", Message: "asks for a CA"}},
		{reason: "no CA", request: isNoCA, want: "web.example.com"},
		{reason: "key usages that it gets", request: signs, want: "web.example.com"},
		{reason: "key usages that it does not get", request: agrees, refused: profile.Refusal{Reason: "ExtensionNotPermitted", Field: "spec.profile.extensions", Message: "contains key usages"}},
		{reason: "extended usages that it gets", request: serves, want: "web.example.com"},
		{reason: "extended usages that it does not get", request: stamps, refused: profile.Refusal{Reason: "ExtensionNotPermitted", Field: "spec.profile.extensions", Message: "contains extended key usages"}},
		{reason: "an extension", request: staples, refused: profile.Refusal{Reason: "ExtensionNotPermitted", Field: "spec.profile.extensions", Message: "the extension 1.3.6.1.5.5.7.1.24"}},
		{reason: "an identifier of the key", request: hashed, want: "web.example.com"},
		{reason: "an extension to be ignored", request: staples, spec: func(s *spec) { s.Profile.Extensions = v1alpha1.IgnoreExtensions }, want: "web.example.com"},
		{reason: "names of another kind", request: otherName, refused: profile.Refusal{Reason: "ExtensionNotPermitted", Field: "spec.profile.extensions", Message: "other than DNS"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cert, err := compile(t, change(csrSpec(), tc.spec)).Decide(change(csrFacts(t, tc.request), tc.facts))
			assertRefusal(t, err, tc.refused)
			if err == nil && outcome(cert) != tc.want {
				t.Errorf("got %s\nwant %s", outcome(cert), tc.want)
			}
		})
	}
}

func TestSubjectOfTheRequestIsNotEncodedAnew(t *testing.T) {
	s := csrSpec()
	s.Profile.Subject.FromRequest = true
	raw := []byte("\x30\x0e\x31\x0c\x30\x0a\x06\x03\x55\x04\x03\x0c\x03web") // UTF8String, where Go writes a PrintableString
	f := csrFacts(t, x509.CertificateRequest{RawSubject: raw})
	if diff := cmp.Diff(raw, decided(t, s, f).RawSubject); diff != "" {
		t.Error(diff)
	}
}
