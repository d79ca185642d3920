package profile_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
)

type (
	spec  = v1alpha1.SignerSpec
	facts = profile.Facts
)

// outcome is what of a certificate is told in one line.
func outcome(cert *profile.Certificate) string {
	var parts []string
	if text := cert.Subject.String(); text != "" {
		parts = append(parts, text)
	}
	parts = append(parts, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		parts = append(parts, ip.String())
	}
	for _, uri := range cert.URIs {
		parts = append(parts, uri.String())
	}
	return strings.Join(append(parts, cert.EmailAddresses...), " ")
}

func TestDecidePods(t *testing.T) {
	const spiffe = "spiffe://example.org/ns/shop/sa/web"
	tests := []struct {
		reason string
		spec   func(*spec)
		facts  func(*facts)
		want   string
	}{
		{reason: "a plain pod", want: spiffe},
		{reason: "the form of Kubernetes 1.35", facts: func(f *facts) { f.Request = nil }, want: spiffe},
		{reason: "services", spec: func(s *spec) {
			s.Profile.Names = v1alpha1.NamesProfile{DNSNames: `services.map(s, s.name + "." + s.namespace + ".svc")`}
		}, want: "web.shop.svc api.shop.svc"},
		{reason: "each name once", spec: func(s *spec) {
			s.Profile.Names.URIs = `["a:b", "a:b", "a:c"]`
		}, want: "a:b a:c"},
		{reason: "a subject", spec: func(s *spec) {
			s.Profile.Names = v1alpha1.NamesProfile{}
			s.Profile.Subject = v1alpha1.SubjectProfile{CommonName: "requester.username", Organizations: "requester.groups", OrganizationalUnits: "[request.namespace]"}
		}, want: "CN=system:serviceaccount:shop:web,OU=shop,O=system:authenticated+O=system:serviceaccounts+O=system:serviceaccounts:shop"},
		{reason: "all that is known of the pod", spec: func(s *spec) {
			s.Profile.Names.URIs = `["x:" + [pod.metadata.name, pod.metadata.uid, pod.metadata.labels.app, string(pod.spec.nodeName), string(pod.spec.containers[0].image), ` +
				`node.metadata.labels.zone, namespaceObject.metadata.labels.env, serviceAccount.metadata.uid, request.uid, request.keyType, string(request.expirationSeconds)].join("/")]`
		}, want: "x:web/p1/web/n1/example.com/web:1/a/prod/s1/5c0d/ECDSAP256/86400"},
		{reason: "an annotation that is known", spec: func(s *spec) {
			s.Profile.Annotations = []string{"example.com/role"}
			s.Profile.Names.URIs = `["role:" + request.annotations["example.com/role"]]`
		}, facts: func(f *facts) { f.Annotations = map[string]string{"example.com/role": "db"} }, want: "role:db"},
		{reason: "no annotation", spec: func(s *spec) {
			s.Profile.Annotations = []string{"example.com/role"}
			s.Profile.Names.URIs = `["role:" + request.annotations[?"example.com/role"].orValue("none")]`
		}, want: "role:none"},
		{reason: "addresses and mailboxes", spec: func(s *spec) {
			s.Profile.Names = v1alpha1.NamesProfile{IPAddresses: `["10.0.0.1", "2001:db8::1"]`, EmailAddresses: `["web@example.com"]`}
		}, want: "10.0.0.1 2001:db8::1 web@example.com"},
		{reason: "rules hold", spec: func(s *spec) {
			s.Profile.Rules = []v1alpha1.ProfileRule{{Expression: `pod.spec.hostNetwork`}, {Expression: `!has(pod.spec.hostPID)`}, {Expression: `namespaceObject.metadata.labels.env == "prod"`}}
		}, want: spiffe},
		{reason: "both kinds are served, and what is of pods is not asked for", spec: func(s *spec) {
			s.Requests = append(s.Requests, v1alpha1.CertificateSigningRequests)
			s.Profile.Names.URIs = `request.kind == "PodCertificateRequest" ? ["pod:" + pod.metadata.name] : request.uris`
		}, want: "pod:web"},
		{reason: "an address of both families", spec: func(s *spec) {
			s.Profile.Names = v1alpha1.NamesProfile{IPAddresses: `["::ffff:10.0.0.1"]`}
		}, want: "10.0.0.1"},
		{reason: "a wish that is granted", facts: func(f *facts) {
			uri, _ := url.Parse(spiffe)
			f.Request = request(t, x509.CertificateRequest{URIs: []*url.URL{uri}}, ecdsaKey())
		}, want: spiffe},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cert := decided(t, change(podSpec(), tc.spec), change(podFacts(t), tc.facts))
			if got := outcome(cert); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func change[T any](value T, how func(*T)) T {
	if how != nil {
		how(&value)
	}
	return value
}

func decided(t *testing.T, s spec, f facts) *profile.Certificate {
	t.Helper()
	cert, err := compile(t, s).Decide(f)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestDecidePodsRefuses(t *testing.T) {
	rule := func(r v1alpha1.ProfileRule) func(*spec) {
		return func(s *spec) { s.Profile.Rules = []v1alpha1.ProfileRule{{Expression: "true"}, r} }
	}
	uris := func(text v1alpha1.CEL) func(*spec) { return func(s *spec) { s.Profile.Names.URIs = text } }
	organizations := func(text v1alpha1.CEL) func(*spec) { return func(s *spec) { s.Profile.Subject.Organizations = text } }
	dns := func(text v1alpha1.CEL) func(*spec) { return func(s *spec) { s.Profile.Names.DNSNames = text } }
	tests := []struct {
		reason string
		spec   func(*spec)
		facts  func(*facts)
		want   profile.Refusal
	}{
		{reason: "another kind", facts: func(f *facts) { f.Kind = v1alpha1.CertificateSigningRequests },
			want: profile.Refusal{Reason: "UnservedKind", Field: "spec.requests", Message: "does not serve requests of the kind CertificateSigningRequest"}},
		{reason: "nobody has looked up the node", facts: func(f *facts) { f.Node = nil },
			want: profile.Refusal{Reason: "InvalidRequest", Field: "spec.profile", Message: "not all known"}},
		{reason: "a small key", facts: func(f *facts) { withKey(t, f, mustKey(pki.RSA2048)) },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "does not support keys of the type RSA2048: use one of RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521, ED25519"}},
		{reason: "a key that is not declared", spec: func(s *spec) { s.Profile.KeyTypes = []v1alpha1.KeyType{"ED25519"} },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "type ECDSAP256: use one of ED25519"}},
		{reason: "no key", facts: func(f *facts) { f.Key = nil },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "type unknown"}},
		{reason: "a curve that is none of ours", facts: func(f *facts) { f.Key = &ecdsa.PublicKey{Curve: elliptic.P224()} },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "type ECDSAP224"}},
		{reason: "an even modulus", facts: func(f *facts) {
			key := mustRSA(t, 3072)
			key.N.SetBit(key.N, 0, 0)
			f.Request, f.Key = nil, key
		}, want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "even modulus"}},
		{reason: "the stub is about another key", facts: func(f *facts) { f.Key = mustKey(pki.ECDSAP256).Public() },
			want: profile.Refusal{Reason: "InvalidRequest", Field: "spec.profile", Message: "another key"}},
		{reason: "the stub is not signed", facts: func(f *facts) { f.Request.Signature[9] ^= 1 },
			want: profile.Refusal{Reason: "InvalidRequest", Field: "spec.profile", Message: "signature"}},
		{reason: "an annotation, and none is known", facts: func(f *facts) { f.Annotations = map[string]string{"example.com/role": "db"} },
			want: profile.Refusal{Reason: "InvalidUnverifiedUserAnnotations", Field: "spec.profile.annotations", Message: `knows no annotations, and the request has "example.com/role"`}},
		{reason: "one annotation too many", spec: func(s *spec) { s.Profile.Annotations = []string{"example.com/role"} },
			facts: func(f *facts) { f.Annotations = map[string]string{"example.com/role": "db", "example.com/x": ""} },
			want:  profile.Refusal{Reason: "InvalidUnverifiedUserAnnotations", Field: "spec.profile.annotations", Message: `"example.com/x": it knows example.com/role`}},
		{reason: "too short a life", facts: func(f *facts) { f.Duration = ptr(time.Hour - time.Second) },
			want: profile.Refusal{Reason: "LifetimeTooShort", Field: "spec.profile.lifetime", Message: "at least 1h"}},

		{reason: "a rule", spec: rule(v1alpha1.ProfileRule{Expression: ` namespaceObject.metadata.labels.env == "test" `}),
			want: profile.Refusal{Reason: "RuleViolated", Field: "spec.profile.rules[1]", Message: `failed rule: namespaceObject.metadata.labels.env == "test"`}},
		{reason: "a rule with words of its own", spec: rule(v1alpha1.ProfileRule{Expression: "false", Message: "not here", Reason: "NotHere"}),
			want: profile.Refusal{Reason: "NotHere", Field: "spec.profile.rules[1]", Message: "not here"}},
		{reason: "a rule whose words are made", spec: rule(v1alpha1.ProfileRule{Expression: "false", Message: "not here", MessageExpression: `"not on " + node.metadata.name`}),
			want: profile.Refusal{Reason: "RuleViolated", Field: "spec.profile.rules[1]", Message: "not on n1"}},
		{reason: "words that cannot be made", spec: rule(v1alpha1.ProfileRule{Expression: "false", Message: "not here", MessageExpression: `pod.metadata.labels.nope`}),
			want: profile.Refusal{Reason: "RuleViolated", Field: "spec.profile.rules[1]", Message: "not here"}},
		{reason: "words of two lines", spec: rule(v1alpha1.ProfileRule{Expression: "false", Message: "not here", MessageExpression: `"a\nb"`}),
			want: profile.Refusal{Reason: "RuleViolated", Field: "spec.profile.rules[1]", Message: "not here"}},
		{reason: "a rule without a value", spec: rule(v1alpha1.ProfileRule{Expression: `pod.metadata.labels.tier == "front"`}),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.rules[1].expression", Message: "no such key: tier"}},
		{reason: "a rule that is no bool after all", spec: rule(v1alpha1.ProfileRule{Expression: `pod.spec.nodeName`}),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.rules[1].expression", Message: "yields a string instead of a bool"}},
		{reason: "what costs too much", spec: rule(v1alpha1.ProfileRule{Expression: expensive}),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.rules[1].expression", Message: "costs more than 1000000"}},
		{reason: "what costs too much together", spec: func(s *spec) {
			for range 60 {
				s.Profile.Rules = append(s.Profile.Rules, v1alpha1.ProfileRule{Expression: dear})
			}
		}, want: profile.Refusal{Reason: "ExpressionFailed", Message: "cost more than 4000000"}},

		{reason: "no list after all", spec: uris(`pod.spec.nodeName`),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.names.uris", Message: "yields a string instead of a list of strings"}},
		{reason: "a list of something else", spec: uris(`[pod.spec.hostNetwork]`),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.names.uris", Message: "yields a bool instead of a string"}},
		{reason: "a URI that is none", spec: uris(`["web"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: `"web" is no absolute URI`}},
		{reason: "a URI that reads differently", spec: uris(`["HTTP://x/%7e"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: "is no absolute URI"}},
		{reason: "a URI with letters of the world", spec: uris(`["spiffe://bücher/x"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: "is no"}},
		{reason: "a SPIFFE ID and another URI", spec: uris(`["spiffe://example.org/a", "urn:b"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: "must not have other URIs"}},
		{reason: "a SPIFFE ID of nobody", spec: uris(`["spiffe://example.org"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: "no workload"}},
		{reason: "a SPIFFE ID and a key that does not sign", spec: func(s *spec) { s.Profile.Usages = []string{"client auth"} },
			want: profile.Refusal{Reason: "UsageNotPermitted", Field: "spec.profile.usages", Message: "digital signature"}},
		{reason: "a DNS name that ends in a dot", spec: dns(`["web.shop."]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.dnsNames", Message: `"web.shop." is no DNS name`}},
		{reason: "an empty DNS name", spec: dns(`[""]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.dnsNames", Message: `"" is no DNS name`}},
		{reason: "an address with a zone", spec: func(s *spec) { s.Profile.Names.IPAddresses = `["fe80::1%eth0"]` },
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.ipAddresses", Message: "is no IP address"}},
		{reason: "a mailbox of nobody", spec: func(s *spec) { s.Profile.Names.EmailAddresses = `["@example.com"]` },
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.emailAddresses", Message: "is no e-mail address"}},
		{reason: "too many names", spec: dns(`[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17].map(i, [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16].map(j, "n" + string(i * 20 + j))).flatten()`),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.names.dnsNames", Message: "more than 256 values"}},
		{reason: "nobody", spec: uris(`[]`),
			want: profile.Refusal{Reason: "NoName", Field: "spec.profile.names", Message: "neither a subject nor a name"}},
		{reason: "a control character", spec: func(s *spec) { s.Profile.Subject.CommonName = `"a\u0000b"` },
			want: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: "control character"}},
		{reason: "an empty organization", spec: organizations(`[""]`),
			want: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: "is empty"}},
		{reason: "masters of the API", spec: func(s *spec) {
			organizations(`["system:masters"]`)(s)
			s.CA = v1alpha1.SignerCA{BuiltIn: &v1alpha1.BuiltInCA{}}
		}, want: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: "system:masters"}},

		{reason: "a wish for another name", facts: func(f *facts) {
			f.Request = request(t, x509.CertificateRequest{DNSNames: []string{"admin.example.com"}}, ecdsaKey())
		}, want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.dnsNames", Message: `does not give the DNS name "admin.example.com"`}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := compile(t, change(podSpec(), tc.spec)).Decide(change(podFacts(t), tc.facts))
			assertRefusal(t, err, tc.want)
		})
	}
}

// expensive costs more than one expression may, dear a good part of that.
const (
	ten       = "[1,2,3,4,5,6,7,8,9,10]"
	dear      = ten + ".all(a, " + ten + ".all(b, " + ten + ".all(c, " + ten + ".all(d, a + b + c + d > 0))))"
	expensive = ten + ".all(a, " + ten + ".all(b, " + ten + ".all(c, " + ten + ".all(d, " + ten + ".all(e, " + ten + ".all(f, a > 0))))))"
)

// assertRefusal wants a message that contains the given one.
func assertRefusal(t *testing.T, err error, want profile.Refusal) {
	t.Helper()
	got := refusal(t, err)
	if !strings.Contains(got.Message, want.Message) || want.Reason == "" && err != nil {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	got.Message = want.Message
	if want.Field == "" {
		got.Field = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
}

func withKey(t *testing.T, f *facts, key crypto.Signer) {
	t.Helper()
	f.Request, f.Key = request(t, x509.CertificateRequest{}, key), key.Public()
}

func ptr[T any](v T) *T { return &v }

func mustRSA(t *testing.T, bits int) *rsa.PublicKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return &key.PublicKey
}

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
			refused: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: `asks for the subject "CN=web,C=AT", and the signer gives ""`}},
		{reason: "part of a subject in vain", request: named, spec: func(s *spec) { s.Profile.Subject.CommonName = "request.subject.commonName" },
			refused: profile.Refusal{Reason: "SubjectNotPermitted", Field: "spec.profile.subject", Message: `gives "CN=web"`}},
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
		{reason: "no PKCS#10", request: whole, facts: func(f *facts) { f.Request = nil }, refused: profile.Refusal{Reason: "InvalidRequest", Field: "spec.profile", Message: "no PKCS#10"}},

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
		{reason: "an extension to be ignored", request: staples, spec: func(s *spec) { s.Profile.Extensions = v1alpha1.IgnoreExtensions }, want: "web.example.com"},
		{reason: "names of another kind", request: otherName, refused: profile.Refusal{Reason: "ExtensionNotPermitted", Field: "spec.profile.extensions", Message: "of other kinds"}},
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

// A certificate for a pod has all usages that its key is good for; one for a
// CertificateSigningRequest has those that it asks for.
func TestUsages(t *testing.T) {
	pod := podFacts(t)
	ofRSA := podFacts(t)
	ofRSA.Request, ofRSA.Key = nil, mustRSA(t, 3072)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	tests := []struct {
		reason string
		spec   spec
		facts  facts
		want   pki.Usages
	}{
		{"a pod with RSA", podSpec(), ofRSA, pki.Usages{Key: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, Extended: both}},
		{"a pod with ECDSA", podSpec(), pod, pki.Usages{Key: x509.KeyUsageDigitalSignature, Extended: both}},
		{"a host", csrSpec(), csrFacts(t, x509.CertificateRequest{DNSNames: []string{"a"}}), pki.Usages{Key: x509.KeyUsageDigitalSignature, Extended: both[:1]}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decided(t, tc.spec, tc.facts).Usages); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLifetime(t *testing.T) {
	duration := func(text string) *metav1.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return &metav1.Duration{Duration: d}
	}
	week := v1alpha1.LifetimeProfile{Maximum: duration("168h"), Default: duration("48h"), Backdate: duration("4m")}
	tests := []struct {
		reason         string
		profile        v1alpha1.LifetimeProfile
		asked          *time.Duration
		life, backdate time.Duration
	}{
		{"nothing is said", v1alpha1.LifetimeProfile{}, nil, 24 * time.Hour, 2 * time.Minute},
		{"nothing is asked for", week, nil, 48 * time.Hour, 4 * time.Minute},
		{"a maximum alone", v1alpha1.LifetimeProfile{Maximum: duration("12h")}, nil, 12 * time.Hour, 2 * time.Minute},
		{"less", week, ptr(time.Hour), time.Hour, 4 * time.Minute},
		{"more than the default", week, ptr(100 * time.Hour), 100 * time.Hour, 4 * time.Minute},
		{"more than there is", week, ptr(1000 * time.Hour), 168 * time.Hour, 4 * time.Minute},
		{"parts of seconds", week, ptr(time.Hour + time.Millisecond), time.Hour, 4 * time.Minute},
		{"no backdate", v1alpha1.LifetimeProfile{Backdate: duration("0s")}, nil, 24 * time.Hour, 0},
		{"half of a short life", v1alpha1.LifetimeProfile{Backdate: duration("2h")}, ptr(time.Hour), time.Hour, 30 * time.Minute},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s, f := csrSpec(), csrFacts(t, x509.CertificateRequest{DNSNames: []string{"a"}})
			s.Profile.Lifetime, f.Duration = tc.profile, tc.asked
			cert := decided(t, s, f)
			if cert.Duration != tc.life || cert.Backdate != tc.backdate {
				t.Errorf("got %v, of which %v are past; want %v and %v", cert.Duration, cert.Backdate, tc.life, tc.backdate)
			}
			now := time.Date(2026, 5, 1, 12, 0, 0, 999, time.FixedZone("x", 3600))
			validity := cert.Validity(now)
			if got := validity.NotAfter.Sub(validity.NotBefore); got != tc.life || validity.NotBefore.Nanosecond() != 0 || validity.NotBefore.After(now) {
				t.Errorf("valid %v for %v", validity, got)
			}
		})
	}
}

// What is decided can be issued.
func TestTemplatePassesTheLinter(t *testing.T) {
	now := time.Now()
	ca, err := pki.NewRoot("ca", mustKey(pki.ECDSAP256), 1000*time.Hour, now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s := podSpec()
	s.Profile.Subject = v1alpha1.SubjectProfile{CommonName: "requester.username", Organizations: "requester.groups"}
	cert := decided(t, s, podFacts(t))
	serial, err := pki.NewSerial(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	linted, err := ca.Lint(cert.Template(cert.Validity(now), serial), pki.Policy{MinRSABits: 2048})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := linted.Sign(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if leaf.IsCA || leaf.NotAfter.Sub(leaf.NotBefore) != 24*time.Hour || leaf.Subject.CommonName != "system:serviceaccount:shop:web" || len(leaf.Subject.Organization) != 3 {
		t.Errorf("issued %+v", leaf)
	}
}

func TestRefreshAt(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		reason      string
		refresh     v1alpha1.RefreshProfile
		life        time.Duration
		first, last time.Duration // the window, of which at least nine tenths are used
	}{
		{"a day", v1alpha1.RefreshProfile{}, 24 * time.Hour, 13*time.Hour + 26*time.Minute + 24*time.Second, 18*time.Hour + 14*time.Minute + 24*time.Second},
		{"no jitter", v1alpha1.RefreshProfile{JitterPercent: ptr(int32(0))}, 100 * time.Hour, 66 * time.Hour, 66 * time.Hour},
		{"the shortest life of a pod's", v1alpha1.RefreshProfile{AtPercent: 90, JitterPercent: ptr(int32(30))}, time.Hour, 14 * time.Minute, 50 * time.Minute},
		{"early in a short life", v1alpha1.RefreshProfile{AtPercent: 10}, time.Hour, 10 * time.Minute, 22 * time.Minute},
		{"late in a short life, all at once", v1alpha1.RefreshProfile{AtPercent: 90, JitterPercent: ptr(int32(0))}, time.Hour, 50 * time.Minute, 50 * time.Minute},
		{"no room for margins", v1alpha1.RefreshProfile{}, 15 * time.Minute, 450 * time.Second, 450 * time.Second},
		{"just enough room", v1alpha1.RefreshProfile{}, 20 * time.Minute, 10 * time.Minute, 10 * time.Minute},
		{"a hundred years", v1alpha1.RefreshProfile{AtPercent: 50, JitterPercent: ptr(int32(1))}, 876000 * time.Hour, 49 * 8760 * time.Hour, 51 * 8760 * time.Hour},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s := podSpec()
			s.Profile.Refresh = tc.refresh
			cert := decided(t, s, podFacts(t))
			earliest, latest := tc.life, time.Duration(0)
			for i := range 2000 {
				uid := fmt.Sprintf("5c0d7a3e-0000-4000-8000-%012d", i)
				at := cert.RefreshAt(start, start.Add(tc.life), uid)
				if again := cert.RefreshAt(start, start.Add(tc.life), uid); !at.Equal(again) || at.Nanosecond() != 0 {
					t.Fatalf("%v, then %v", at, again)
				}
				earliest, latest = min(earliest, at.Sub(start)), max(latest, at.Sub(start))
			}
			if earliest < tc.first || latest > tc.last || (latest-earliest)*10 < (tc.last-tc.first)*9 {
				t.Errorf("from %v to %v, want from %v to %v", earliest, latest, tc.first, tc.last)
			}
		})
	}
}
