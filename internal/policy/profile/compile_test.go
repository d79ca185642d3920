package profile_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
)

func hours(n float64) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n * float64(time.Hour))}
}

func caPEM(t *testing.T) string {
	t.Helper()
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "ca", ecdsaKey(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(ca.Certificate()))
}

func TestCompileAccepts(t *testing.T) {
	root := caPEM(t)
	tests := []struct {
		reason string
		spec   func(*spec)
	}{
		{"the least", nil},
		{"a Secret", func(s *spec) { s.CA = v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{Name: "ca"}} }},
		{"a key elsewhere", func(s *spec) {
			s.CA = v1alpha1.SignerCA{Key: &v1alpha1.KeyCA{URI: "pkcs11:object=ca", Certificate: root}}
		}},
		{"an endpoint whose roots are known", func(s *spec) {
			s.CA = v1alpha1.SignerCA{Webhook: &v1alpha1.WebhookCA{URL: "https://ca.example.com/sign", Roots: root, CABundle: root}}
		}},
		{"an endpoint whose roots nobody publishes", func(s *spec) {
			s.CA = v1alpha1.SignerCA{Webhook: &v1alpha1.WebhookCA{URL: "https://ca.example.com/sign"}}
			s.PublishTrustBundle = ptr(false)
		}},
		{"service accounts as clients of the API", func(s *spec) {
			s.SignerName, s.CA = profile.APIServerClientPod, v1alpha1.SignerCA{BuiltIn: &v1alpha1.BuiltInCA{}}
			s.Profile.Usages = []string{"client auth"}
		}},
		{"no names for some", func(s *spec) { s.Profile.Names.URIs = "[]" }},
		{"names of which nothing is known before", func(s *spec) { s.Profile.Names.URIs = "pod.spec.containers.map(c, c.image)" }},
		{"comments", func(s *spec) { s.Profile.Rules = []v1alpha1.ProfileRule{{Expression: "// hosts only\ntrue"}} }},
		{"a long life", func(s *spec) { s.Profile.Lifetime.Maximum = hours(29200) }},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) { compile(t, change(podSpec(), tc.spec)) })
	}
}

func TestCompileRefuses(t *testing.T) {
	rules := func(r ...v1alpha1.ProfileRule) func(*spec) { return func(s *spec) { s.Profile.Rules = r } }
	uris := func(text v1alpha1.CEL) func(*spec) { return func(s *spec) { s.Profile.Names.URIs = text } }
	generated := func(g v1alpha1.GeneratedCA) func(*spec) { return func(s *spec) { s.CA.Generated = &g } }
	lifetime := func(l v1alpha1.LifetimeProfile) func(*spec) { return func(s *spec) { s.Profile.Lifetime = l } }
	hook := func(w v1alpha1.WebhookCA) func(*spec) { return func(s *spec) { s.CA = v1alpha1.SignerCA{Webhook: &w} } }
	name := func(name string) func(*spec) { return func(s *spec) { s.SignerName = name } }
	tests := []struct {
		reason string
		spec   func(*spec)
		field  string
		want   string
	}{
		{"no name", name(""), "spec.signerName", "Required"},
		{"no path", name("example.com"), "spec.signerName", "fully qualified domain and path"},
		{"Kubernetes' own", name("kubernetes.io/kubelet-serving"), "spec.signerName", "are reserved for Kubernetes: use your own domain"},
		{"a part of Kubernetes", name("policy.kubernetes.io/x"), "spec.signerName", "are reserved for Kubernetes"},
		{"nothing to serve", func(s *spec) { s.Requests = nil }, "spec.requests", "the kinds of requests to serve"},
		{"an unknown kind", func(s *spec) { s.Requests = append(s.Requests, "Pod") }, "spec.requests[1]", `Unsupported value: "Pod"`},
		{"a kind twice", func(s *spec) { s.Requests = append(s.Requests, s.Requests[0]) }, "spec.requests[1]", "Duplicate"},
		{"people as pods", func(s *spec) {
			s.SignerName = profile.APIServerClientPod
			s.Requests = append(s.Requests, v1alpha1.CertificateSigningRequests)
		}, "spec.requests", "only"},
		{"a server of the name of a client", name(profile.APIServerClientPod), "spec.profile.usages[3]", "can only have the usages"},

		{"no CA", func(s *spec) { s.CA = v1alpha1.SignerCA{} }, "spec.ca", "set exactly one of"},
		{"two CAs", func(s *spec) { s.CA.BuiltIn = &v1alpha1.BuiltInCA{} }, "spec.ca", `"generated, builtIn": set exactly one`},
		{"a Secret of no name", func(s *spec) { s.CA = v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{}} }, "spec.ca.secret.name", "Required"},
		{"a Secret that cannot be", func(s *spec) { s.CA = v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{Name: "A"}} }, "spec.ca.secret.name", "lowercase"},
		{"a generated Secret that cannot be", generated(v1alpha1.GeneratedCA{SecretName: "a/b"}), "spec.ca.generated.secretName", "lowercase"},
		{"a long name", generated(v1alpha1.GeneratedCA{CommonName: strings.Repeat("a", 65)}), "spec.ca.generated.commonName", "64"},
		{"a key of no kind", generated(v1alpha1.GeneratedCA{KeyType: "DSA"}), "spec.ca.generated.keyType", "Unsupported value"},
		{"a short CA", generated(v1alpha1.GeneratedCA{Lifetime: hours(0.5)}), "spec.ca.generated.lifetime", "at least 1h"},
		{"a CA that is shorter than its certificates", generated(v1alpha1.GeneratedCA{Lifetime: hours(48)}), "spec.ca.generated.lifetime", "longest lifetime of a certificate, 24h0m0s"},
		{"a CA that is replaced late", generated(v1alpha1.GeneratedCA{Lifetime: hours(480), RotateBefore: hours(1)}), "spec.ca.generated.rotateBefore", "longest lifetime of a certificate, 24h0m0s"},
		{"a CA whose root is published for too long", generated(v1alpha1.GeneratedCA{Lifetime: hours(480), Propagation: hours(49)}), "spec.ca.generated.propagation", "at most a tenth of lifetime, 48h0m0s"},
		{"a CA that is replaced at once", generated(v1alpha1.GeneratedCA{Lifetime: hours(48), RotateBefore: hours(48)}), "spec.ca.generated.rotateBefore", "less than lifetime, 48h0m0s"},
		{"a key nowhere", func(s *spec) { s.CA = v1alpha1.SignerCA{Key: &v1alpha1.KeyCA{URI: "ca.key", Certificate: caPEM(t)}} }, "spec.ca.key.uri", "must be a URI"},
		{"a key without a certificate", func(s *spec) { s.CA = v1alpha1.SignerCA{Key: &v1alpha1.KeyCA{URI: "pkcs11:x"}} }, "spec.ca.key.certificate", "Required"},
		{"a key with half a certificate", func(s *spec) {
			s.CA = v1alpha1.SignerCA{Key: &v1alpha1.KeyCA{URI: "pkcs11:x", Certificate: caPEM(t) + "-----BEGIN CERTIFICATE-----\nMII"}}
		}, "spec.ca.key.certificate", "has no separate last line"},
		{"an endpoint in the open", hook(v1alpha1.WebhookCA{URL: "http://ca.example.com", Roots: caPEM(t)}), "spec.ca.webhook.url", "https://HOST"},
		{"an endpoint with a password", hook(v1alpha1.WebhookCA{URL: "https://a:b@ca.example.com", Roots: caPEM(t)}), "spec.ca.webhook.url", "https://HOST"},
		{"unknown roots", hook(v1alpha1.WebhookCA{URL: "https://ca.example.com"}), "spec.ca.webhook.roots", "or spec.publishTrustBundle to false"},
		{"no roots", hook(v1alpha1.WebhookCA{URL: "https://ca.example.com", Roots: "x"}), "spec.ca.webhook.roots", "Invalid"},
		{"no bundle", hook(v1alpha1.WebhookCA{URL: "https://ca.example.com", Roots: caPEM(t), CABundle: "x"}), "spec.ca.webhook.caBundle", "Invalid"},
		{"credentials of no name", hook(v1alpha1.WebhookCA{URL: "https://ca.example.com", Roots: caPEM(t), Credentials: &v1alpha1.SecretCA{}}), "spec.ca.webhook.credentials.name", "Required"},
		{"no patience", hook(v1alpha1.WebhookCA{URL: "https://ca.example.com", Roots: caPEM(t), Timeout: hours(0)}), "spec.ca.webhook.timeout", "from 1s to 1m"},

		{"a chain of something", func(s *spec) { s.Chain = "Root" }, "spec.chain", "Unsupported value"},
		{"a subject of pods' requests", func(s *spec) { s.Profile.Subject.FromRequest = true }, "spec.profile.subject.fromRequest", "requests of pods have no subject"},
		{"two subjects", func(s *spec) { s.Profile.Subject = v1alpha1.SubjectProfile{FromRequest: true, CommonName: `"a"`} }, "spec.profile.subject.fromRequest", "set one or the other"},
		{"nobody", uris(""), "spec.profile.names", "need a name or a subject"},
		{"no usages", func(s *spec) { s.Profile.Usages = nil }, "spec.profile.usages", "what certificates may be used for"},
		{"an unknown usage", func(s *spec) { s.Profile.Usages[1] = "clientAuth" }, "spec.profile.usages[1]", "is not a usage of"},
		{"a usage of CAs", func(s *spec) { s.Profile.Usages[1] = "cert sign" }, "spec.profile.usages[1]", "no Signer issues CA"},
		{"a usage twice", func(s *spec) { s.Profile.Usages[1] = s.Profile.Usages[0] }, "spec.profile.usages[1]", "Duplicate"},
		{"an unknown kind of key", func(s *spec) { s.Profile.KeyTypes = []v1alpha1.KeyType{"RSA1024"} }, "spec.profile.keyTypes[0]", "Unsupported value"},
		{"an annotation of nobody", func(s *spec) { s.Profile.Annotations = []string{"role"} }, "spec.profile.annotations[0]", "must begin with a domain"},
		{"an annotation that cannot be", func(s *spec) { s.Profile.Annotations = []string{"a/b/c"} }, "spec.profile.annotations[0]", "Invalid"},
		{"an annotation twice", func(s *spec) { s.Profile.Annotations = []string{"a.b/c", "a.b/c"} }, "spec.profile.annotations[1]", "Duplicate"},
		{"annotations of hosts", func(s *spec) {
			*s = csrSpec()
			s.Profile.Annotations = []string{"a.b/c"}
		}, "spec.profile.annotations", "only PodCertificateRequests have annotations"},
		{"an unknown way with CAs", func(s *spec) { s.Profile.CertificateAuthorities = "Allow" }, "spec.profile.certificateAuthorities", "Unsupported value"},
		{"an unknown way with extensions", func(s *spec) { s.Profile.Extensions = "Copy" }, "spec.profile.extensions", "Unsupported value"},
		{"too short for pods", lifetime(v1alpha1.LifetimeProfile{Maximum: hours(0.5)}), "spec.profile.lifetime.maximum", "at least 1h"},
		{"too long for anybody", lifetime(v1alpha1.LifetimeProfile{Maximum: hours(1e6)}), "spec.profile.lifetime.maximum", "a hundred years"},
		{"a default beyond the maximum", lifetime(v1alpha1.LifetimeProfile{Default: hours(25)}), "spec.profile.lifetime.default", "at most maximum, 24h0m0s"},
		{"too short a default", lifetime(v1alpha1.LifetimeProfile{Default: hours(0.1)}), "spec.profile.lifetime.default", "at least"},
		{"a negative backdate", lifetime(v1alpha1.LifetimeProfile{Backdate: hours(-1)}), "spec.profile.lifetime.backdate", "negative"},
		{"a backdate that the API does not want", lifetime(v1alpha1.LifetimeProfile{Backdate: hours(5.0 / 60)}), "spec.profile.lifetime.backdate", "less than 5m"},
		{"too long for a client of the API", func(s *spec) {
			s.SignerName, s.Profile.Usages = profile.APIServerClientPod, []string{"client auth"}
			s.Profile.Lifetime.Maximum = hours(25)
		}, "spec.profile.lifetime.maximum", "at most 24h"},
		{"too early", func(s *spec) { s.Profile.Refresh.AtPercent = 5 }, "spec.profile.refresh.atPercent", "from 10 to 90"},
		{"too far apart", func(s *spec) { s.Profile.Refresh.JitterPercent = ptr(int32(31)) }, "spec.profile.refresh.jitterPercent", "from 0 to 30"},

		{"a rule of nothing", rules(v1alpha1.ProfileRule{}), "spec.profile.rules[0].expression", "Required"},
		{"a rule that is no bool", rules(v1alpha1.ProfileRule{Expression: `"a"`}), "spec.profile.rules[0].expression", "must yield a bool, and yields string"},
		{"a message that is no string", rules(v1alpha1.ProfileRule{Expression: "true", MessageExpression: "1"}), "spec.profile.rules[0].messageExpression", "must yield a string, and yields int"},
		{"a message of two lines", rules(v1alpha1.ProfileRule{Expression: "true", Message: "a\nb"}), "spec.profile.rules[0].message", "one line"},
		{"a long message", rules(v1alpha1.ProfileRule{Expression: "true", Message: strings.Repeat("a", 1025)}), "spec.profile.rules[0].message", "1024"},
		{"a reason of two words", rules(v1alpha1.ProfileRule{Expression: "true", Reason: "Not here"}), "spec.profile.rules[0].reason", "CamelCase"},
		{"a reason that ends in a colon", rules(v1alpha1.ProfileRule{Expression: "true", Reason: "No:"}), "spec.profile.rules[0].reason", "CamelCase"},
		{"a reason that begins with a digit", rules(v1alpha1.ProfileRule{Expression: "true", Reason: "4"}), "spec.profile.rules[0].reason", "CamelCase"},
		{"a long reason", rules(v1alpha1.ProfileRule{Expression: "true", Reason: strings.Repeat("a", 257)}), "spec.profile.rules[0].reason", "256"},
		{"too many rules", rules(make([]v1alpha1.ProfileRule, 65)...), "spec.profile.rules", "at most 64"},
		{"no expression", uris("[pod.metadata.name"), "spec.profile.names.uris", "Syntax error"},
		{"a word that does not exist", uris("[pod.metadata.nmae]"), "spec.profile.names.uris", "undefined field 'nmae'"},
		{"a word that CEL keeps", uris("[namespace.metadata.name]"), "spec.profile.names.uris", "is namespaceObject"},
		{"a list of numbers", uris("[1]"), "spec.profile.names.uris", "must yield a list of strings, and yields list(int)"},
		{"a string for a list", uris("pod.metadata.name"), "spec.profile.names.uris", "must yield a list of strings, and yields string"},
		{"a list for a string", func(s *spec) { s.Profile.Subject.CommonName = "request.dnsNames" }, "spec.profile.subject.commonName", "must yield a string"},
		{"a long expression", uris(v1alpha1.CEL(`["a:` + strings.Repeat("a", 4096) + `"]`)), "spec.profile.names.uris", "4096"},
		{"a bad pattern", rules(v1alpha1.ProfileRule{Expression: `pod.metadata.name.matches("(")`}), "spec.profile.rules[0].expression", "invalid matches argument"},
		{"what is deep", rules(v1alpha1.ProfileRule{Expression: v1alpha1.CEL(strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000))}), "spec.profile.rules[0].expression", "recursion"},
		{"pods, where none ask", func(s *spec) {
			*s = csrSpec()
			s.Profile.Names.DNSNames = "[pod.metadata.name]"
		}, "spec.profile.names.dnsNames", "spec.requests does not contain"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s := podSpec()
			tc.spec(&s)
			p, errs := profile.Compile(s, field.NewPath("spec"))
			if p != nil || len(errs) == 0 {
				t.Fatal("it compiles")
			}
			for _, err := range errs {
				if err.Field == tc.field && strings.Contains(err.Error(), tc.want) {
					return
				}
			}
			t.Errorf("got %v\nwant %s: %s", errs.ToAggregate(), tc.field, tc.want)
		})
	}
}

func TestCompileNamesEveryFault(t *testing.T) {
	s := podSpec()
	s.SignerName, s.CA, s.Profile.Usages, s.Profile.Names.URIs = "x", v1alpha1.SignerCA{}, nil, "1"
	_, errs := profile.Compile(s, field.NewPath("spec"))
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	if got := strings.Join(fields, " "); got != "spec.signerName spec.ca spec.profile.usages spec.profile.names.uris" {
		t.Errorf("faults in %s", got)
	}
}
