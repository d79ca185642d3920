package profile_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

type (
	spec  = v1alpha1.SignerSpec
	facts = request.Request
)

// outcome returns a summary of a certificate in one line.
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
		{reason: "the form of Kubernetes 1.35", facts: func(f *facts) { f.PKCS10 = nil }, want: spiffe},
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
		{reason: "a group that is above the API's, where the API does not believe it", spec: func(s *spec) {
			s.Profile.Names = v1alpha1.NamesProfile{}
			s.Profile.Subject.Organizations = `["system:masters"]`
		}, want: "O=system:masters"},
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
			f.PKCS10 = pkcs10(t, x509.CertificateRequest{URIs: []*url.URL{uri}}, ecdsaKey())
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
		{reason: "the node was not looked up", facts: func(f *facts) { f.Node = nil },
			want: profile.Refusal{Reason: "InvalidRequest", Field: "spec.profile", Message: "not all known"}},
		{reason: "a small key", facts: func(f *facts) { withKey(t, f, mustKey(pki.RSA2048)) },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "does not support keys of the type RSA2048: use one of RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521, ED25519"}},
		{reason: "a key that is not declared", spec: func(s *spec) { s.Profile.KeyTypes = []v1alpha1.KeyType{"ED25519"} },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "type ECDSAP256: use one of ED25519"}},
		{reason: "no key", facts: func(f *facts) { f.Key = nil },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "type unknown"}},
		{reason: "a curve that is not supported", facts: func(f *facts) { f.Key = &ecdsa.PublicKey{Curve: elliptic.P224()} },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "type ECDSAP224"}},
		{reason: "a key that has none of the usages", spec: func(s *spec) { s.Profile.Usages = []string{"key encipherment", "server auth"} },
			want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.usages", Message: "use an RSA key"}},
		{reason: "an even modulus", facts: func(f *facts) {
			key := mustRSA(t, 3072)
			key.N.SetBit(key.N, 0, 0)
			f.PKCS10, f.Key = nil, key
		}, want: profile.Refusal{Reason: "UnsupportedKeyType", Field: "spec.profile.keyTypes", Message: "even modulus"}},
		{reason: "the stub is about another key", facts: func(f *facts) { f.Key = mustKey(pki.ECDSAP256).Public() },
			want: profile.Refusal{Reason: "InvalidRequest", Field: "spec.profile", Message: "another key"}},
		{reason: "the stub is not signed", facts: func(f *facts) {
			spoiled := *f.PKCS10.CertificateRequest
			spoiled.Signature = bytes.Clone(spoiled.Signature)
			spoiled.Signature[9] ^= 1
			f.PKCS10 = pki.ReadRequest(&spoiled)
		},
			want: profile.Refusal{Reason: "InvalidRequest", Field: "spec.profile", Message: "signature"}},
		{reason: "an annotation, and none is known", facts: func(f *facts) { f.Annotations = map[string]string{"example.com/role": "db"} },
			want: profile.Refusal{Reason: "InvalidUnverifiedUserAnnotations", Field: "spec.profile.annotations", Message: `accepts no annotations, and the request has "example.com/role"`}},
		{reason: "one annotation too many", spec: func(s *spec) { s.Profile.Annotations = []string{"example.com/role"} },
			facts: func(f *facts) { f.Annotations = map[string]string{"example.com/role": "db", "example.com/x": ""} },
			want:  profile.Refusal{Reason: "InvalidUnverifiedUserAnnotations", Field: "spec.profile.annotations", Message: `"example.com/x": it accepts example.com/role`}},
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
		{reason: "loops that turn too often", spec: rule(v1alpha1.ProfileRule{Expression: v1alpha1.CEL(long)}),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.rules[1].expression", Message: "turn more than 12500 times"}},
		{reason: "what costs too much together", spec: func(s *spec) {
			for range 60 {
				s.Profile.Rules = append(s.Profile.Rules, v1alpha1.ProfileRule{Expression: v1alpha1.CEL(dear)})
			}
		}, want: profile.Refusal{Reason: "ExpressionFailed", Message: "cost more than 4000000"}},

		{reason: "no list after all", spec: uris(`pod.spec.nodeName`),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.names.uris", Message: "yields a string instead of a list of strings"}},
		{reason: "a list of something else", spec: uris(`[pod.spec.hostNetwork]`),
			want: profile.Refusal{Reason: "ExpressionFailed", Field: "spec.profile.names.uris", Message: "yields a bool instead of a string"}},
		{reason: "a URI that is none", spec: uris(`["web"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: `"web" is not an absolute URI`}},
		{reason: "a URI that reads differently", spec: uris(`["HTTP://x/%7e"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: "is not an absolute URI"}},
		{reason: "a URI with letters of the world", spec: uris(`["spiffe://bücher/x"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: "is no"}},
		{reason: "a SPIFFE ID and another URI", spec: uris(`["spiffe://example.org/a", "urn:b"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: "must not have other URIs"}},
		{reason: "a SPIFFE ID of nobody", spec: uris(`["spiffe://example.org"]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.uris", Message: "no workload"}},
		{reason: "a SPIFFE ID and a key that does not sign", spec: func(s *spec) { s.Profile.Usages = []string{"client auth"} },
			want: profile.Refusal{Reason: "UsageNotPermitted", Field: "spec.profile.usages", Message: "digital signature"}},
		{reason: "a DNS name that ends in a dot", spec: dns(`["web.shop."]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.dnsNames", Message: `"web.shop." is not a valid DNS name`}},
		{reason: "an empty DNS name", spec: dns(`[""]`),
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.dnsNames", Message: `"" is not a valid DNS name`}},
		{reason: "an address with a zone", spec: func(s *spec) { s.Profile.Names.IPAddresses = `["fe80::1%eth0"]` },
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.ipAddresses", Message: "is not a valid IP address"}},
		{reason: "a mailbox of nobody", spec: func(s *spec) { s.Profile.Names.EmailAddresses = `["@example.com"]` },
			want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.emailAddresses", Message: "is not a valid e-mail address"}},
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
			f.PKCS10 = pkcs10(t, x509.CertificateRequest{DNSNames: []string{"admin.example.com"}}, ecdsaKey())
		}, want: profile.Refusal{Reason: "NameNotPermitted", Field: "spec.profile.names.dnsNames", Message: `does not issue the DNS name "admin.example.com"`}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := compile(t, change(podSpec(), tc.spec)).Decide(change(podFacts(t), tc.facts))
			assertRefusal(t, err, tc.want)
		})
	}
}

// expensive costs more than one expression may; dear costs a large part of
// that. The loops of long turn too often, at a low cost.
var (
	ten       = "[1,2,3,4,5,6,7,8,9,10]"
	dear      = ten + ".all(a, " + ten + ".all(b, " + ten + ".all(c, " + ten + ".all(d, a + b + c + d > 0))))"
	long      = ten + ".all(a, " + ten + ".all(b, " + ten + ".all(c, " + ten + ".all(d, " + ten + ".all(e, a > 0)))))"
	expensive = v1alpha1.CEL(ten + ".all(a, " + ten + ".all(b, !'" + strings.Repeat("x", 1000) + "'.matches('" + strings.Repeat("y", 1000) + "')))")
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
	f.PKCS10, f.Key = pkcs10(t, x509.CertificateRequest{}, key), key.Public()
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
