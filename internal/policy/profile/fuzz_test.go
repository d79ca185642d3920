package profile_test

import (
	"crypto/x509"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// FuzzCompile: whatever compiles decides, and neither panics nor takes long.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"request.dnsNames", `["a"]`, "[]", "1", "pod.spec.containers.map(c, c.image)", "services.map(s, s.name)", dear, string(expensive),
		`request.annotations.map(k, request.annotations[k])`, `[pod.metadata.name.matches("a+") ? "a:b" : "c"]`, "optional.none()", "pod", "[[]]", "[null]", `{"a": 1}`,
		`"a".split("")`, `[ip("10.0.0.1").family() == 4 ? "a" : "b"]`, `[timestamp("2020-01-01T00:00:00Z").getFullYear() > 1 ? "x" : "y"]`, "type(pod)",
	} {
		f.Add(text)
	}
	facts := podFacts(f)
	f.Fuzz(func(t *testing.T, text string) {
		s := podSpec()
		s.Profile.Names = v1alpha1.NamesProfile{DNSNames: v1alpha1.CEL(text), URIs: `["a:b"]`, IPAddresses: v1alpha1.CEL(text), EmailAddresses: v1alpha1.CEL(text)}
		s.Profile.Subject = v1alpha1.SubjectProfile{Organizations: v1alpha1.CEL(text)}
		s.Profile.Rules = []v1alpha1.ProfileRule{{Expression: "true", MessageExpression: ""}}
		p, errs := profile.Compile(s, field.NewPath("spec"))
		if (p == nil) == (len(errs) == 0) {
			t.Fatal("neither a profile nor an error, or both")
		}
		if p != nil {
			checkDecision(t, p, facts)
		}
	})
}

// FuzzDecide: whatever a requester sends, the answer is a refusal or a
// certificate with all that was asked for, and it is the same each time.
func FuzzDecide(f *testing.F) {
	for _, template := range []x509.CertificateRequest{{}, {DNSNames: []string{"a.example"}, EmailAddresses: []string{"a@b"}}} {
		f.Add(pkcs10(f, template, ecdsaKey()).Raw, "client auth", "example.com/a", int64(3600))
	}
	csrs := csrSpec()
	csrs.Profile.Subject.FromRequest = true
	profiles := []*profile.Profile{compile(f, csrs), compile(f, podSpec())}
	f.Fuzz(func(t *testing.T, der []byte, usage, annotation string, seconds int64) {
		asked, err := pki.ParseRequestDER(der)
		if err != nil {
			return
		}
		csr, pod := csrFacts(t, x509.CertificateRequest{}), podFacts(t)
		csr.Usages = []string{usage}
		pod.Annotations = map[string]string{annotation: ""}
		for i, facts := range []request.Request{csr, pod} {
			facts.PKCS10, facts.Key, facts.Duration = asked, asked.PublicKey, ptr(time.Duration(seconds))
			checkDecision(t, profiles[i], facts)
		}
	})
}

func checkDecision(t *testing.T, p *profile.Profile, f request.Request) {
	cert, err := p.Decide(f)
	if r := refusal(t, err); err != nil && (r.Reason == "" || r.Field == "" || r.Message == "" || cert != nil) {
		t.Fatalf("refusal %+v", r)
	}
	again, err2 := p.Decide(f)
	if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
		t.Fatalf("first %v, then %v", err, err2)
	}
	if err != nil {
		return
	}
	if outcome(cert) != outcome(again) || len(outcome(cert)) == 0 {
		t.Fatalf("first %s, then %s", outcome(cert), outcome(again))
	}
	if cert.Duration < 10*time.Minute || cert.Backdate > cert.Duration/2 {
		t.Fatalf("life %v, of which %v are past", cert.Duration, cert.Backdate)
	}
	for _, name := range f.PKCS10.DNSNames {
		if !containsText(cert.DNSNames, name) {
			t.Fatalf("%q is lost", name)
		}
	}
}

func containsText(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}
