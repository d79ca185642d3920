package certpolicy_test

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// fuzzed are the policies that judge the requests of FuzzDecide.
func fuzzed(t testing.TB) []*certpolicy.Set {
	t.Helper()
	return []*certpolicy.Set{
		set(t, map[string]string{"everything": everything}),
		set(t, map[string]string{"web": web, "strict": strict, "rest": `{effect: DenyRest, match: {signers: ["*"]}}`}),
		set(t, map[string]string{"rules": `
effect: Limit
match: {signers: ["*"], conditions: [{name: a, expression: "request.subject.other.all(a, a.oid != '1.2.3') || request.extensions.size() > 0"}]}
certificate:
  names: {dns: {expression: "request.dnsNames.map(n, n.lowerAscii())"}, uri: {matches: ["[a-z]+:.*"]}, email: {domains: [example.com], patterns: ["*@{user}"]}}
rules:
- {name: names, expression: "request.dnsNames == certificate.dnsNames && sameNames(request.uris, certificate.uris)", messageExpression: "'no ' + request.subject.text + request.dnsNames.join(' ')"}
- {name: zones, expression: "request.dnsNames.all(n, inZone(n, 'example.com') || underPattern(n, '*'))"}
- {name: key, expression: "request.keyBits >= 0 && request.keyType != 'x' && request.keyFingerprint != ''"}
`}),
	}
}

// FuzzDecide: whatever somebody sends, the decision is the same each time, says
// why, and permits only what the policy does.
func FuzzDecide(f *testing.F) {
	for _, a := range []asked{
		of(csrs), of(csrs).but(func(a *asked) { a.dns = []string{"*.example.com", "EXAMPLE.org", "a_b"} }),
		of(csrs).but(func(a *asked) { a.san = san(ordinary, tlv(0xa4, tlv(0x30)...)) }),
		of(csrs).but(func(a *asked) {
			a.ips, a.uris, a.mail = []string{"10.0.0.1"}, []string{"https://a.example/b"}, []string{"ann@example.com"}
		}),
		of(csrs).but(func(a *asked) { a.others = []pki.OtherName{{Type: oidUPN, Value: "x"}} }),
		of(csrs).but(func(a *asked) {
			a.ca, a.constraints = &pki.BasicConstraints{IsCA: true}, &pki.NameConstraints{Permitted: pki.NameTrees{DNSDomains: []string{"a.example"}}}
		}),
		of(csrs).but(func(a *asked) { a.subject = rdn("CN", "x\x1b[2J", "O", "y", "UID", "z") }),
		of(csrs).but(attributes(func(_ testing.TB, _ []byte) []byte { return extensionRequest("1.3.6.1.4.1.311.2.1.14", 1) })),
		of(csrs).but(func(a *asked) { a.extensions = strangeExtension() }),
	} {
		f.Add(a.raw(f), "alice", "server auth", int32(3600))
	}
	sets := fuzzed(f)
	f.Fuzz(func(t *testing.T, der []byte, user, usage string, seconds int32) {
		csr := &certificatesv1.CertificateSigningRequest{}
		csr.Name, csr.UID = "r", "u"
		csr.Spec = certificatesv1.CertificateSigningRequestSpec{
			Request: pki.EncodeRequest(&x509.CertificateRequest{Raw: der}), SignerName: "example.com/web", Username: user, ExpirationSeconds: &seconds,
			Usages: []certificatesv1.KeyUsage{certificatesv1.KeyUsage(usage)},
		}
		r := request.FromCSR(csr)
		for i, s := range sets {
			in := certpolicy.Input{Request: r, Time: now, Patience: time.Minute}
			first := s.Decide(in)
			if text := encode(t, first); text != encode(t, s.Decide(in)) {
				t.Fatalf("the policies %d decide otherwise the second time", i)
			}
			checkDecision(t, first, &r)
		}
		if d := sets[0].Decide(certpolicy.Input{Request: r, Time: now}); d.Outcome == v1alpha1.OutcomeApprove {
			checkPermitted(t, sets[1].Decide(certpolicy.Input{Request: r, Time: now}), &r)
		}
	})
}

// checkDecision checks what is true of every decision.
func checkDecision(t *testing.T, d *v1alpha1.PolicyDecision, r *request.Request) {
	t.Helper()
	refused := d.Outcome == v1alpha1.OutcomeDeny
	if refused != (d.Reason != "") || refused != (d.Message != "") || !printable(d.Message) || len(d.Message) > 8*1024 {
		t.Fatalf("%s with the reason %q and the message %q", d.Outcome, d.Reason, d.Message)
	}
	for _, v := range d.Violations {
		if v.At == "" || v.Reason == "" || v.Message == "" || len(v.Message) > 8*1024 || !printable(v.Message) {
			t.Fatalf("a violation %+v", v)
		}
	}
	if r.Unreadable != nil && d.Reason != certpolicy.ReasonUnreadable {
		t.Fatalf("a request that cannot be read (%v) gets %s", r.Unreadable, brief(d))
	}
}

// checkPermitted checks by other means that a request is one which the policies
// web and strict permit.
func checkPermitted(t *testing.T, d *v1alpha1.PolicyDecision, r *request.Request) {
	t.Helper()
	if d.Outcome != v1alpha1.OutcomeApprove {
		return
	}
	asked := r.PKCS10
	for _, name := range asked.DNSNames {
		name = strings.ToLower(name)
		if name != "shop.example.com" && !strings.HasSuffix(name, ".shop.example.com") || strings.Contains(name, "*") {
			t.Fatalf("%q is permitted", name)
		}
	}
	if len(asked.DNSNames) > 2 || len(asked.URIs)+len(asked.EmailAddresses)+len(asked.IPAddresses)+len(asked.OtherNames.Value)+len(asked.Subject.Names) > 0 {
		t.Fatalf("more is permitted: %v, %v", asked.CertificateRequest, asked.OtherNames)
	}
	if asked.CA.Value.IsCA || len(asked.Other) > 0 || slices.Contains(r.Usages, "client auth") {
		t.Fatal("more than names is permitted")
	}
	// No extension has a name that is not among the names.
	for _, extension := range asked.Extensions {
		if bytes.Contains(extension.Value, []byte("example.org")) {
			t.Fatalf("the extension %v has a name that nobody saw", extension.Id)
		}
	}
}

// FuzzCompile: whatever is written compiles or not, and what compiles decides.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{"example.com", "*.example.com", "{user}", "request.dnsNames", "true", "[a-z]+", "10.0.0.0/8", "https://a.example/*", "a@b.example", "1.2.3", dear, fails} {
		f.Add(text, text)
	}
	in := of(csrs).but(func(a *asked) {
		a.mail, a.uris, a.ips = []string{"ann@example.com"}, []string{"https://a.example/b"}, []string{"10.0.0.1"}
		a.subject = rdn("CN", "x")
	}).input(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		p := policy(t, "p", everything)
		names, cert := p.Spec.Certificate.Names, p.Spec.Certificate
		switch len(a) % 5 {
		case 0:
			names.DNS = &v1alpha1.DNSConditions{Zones: []string{a}, Patterns: []string{b}, Excluded: &v1alpha1.ExcludedDNS{Zones: []string{b}, Patterns: []string{a}}}
		case 1:
			names.DNS = &v1alpha1.DNSConditions{Matches: []string{a}, Expression: v1alpha1.CEL(b)}
		case 2:
			names.URI, names.Email = &v1alpha1.URIConditions{Patterns: []string{a}, Matches: []string{b}}, &v1alpha1.EmailConditions{Domains: []string{a}, Patterns: []string{b}}
		case 3:
			names.IP = &v1alpha1.IPConditions{CIDRs: []string{a}, Expression: v1alpha1.CEL(b)}
			cert.Subject.CommonName = &v1alpha1.CommonName{Text: v1alpha1.Text{Patterns: []string{a, b}}}
			p.Spec.Match.Signers = append(p.Spec.Match.Signers, a)
		default:
			p.Spec.Rules = []v1alpha1.PolicyRule{{Name: "r", Expression: v1alpha1.CEL(a), MessageExpression: v1alpha1.CEL(b)}}
			p.Spec.Match.Requesters = &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{Users: []string{a, "*"}, ServiceAccounts: []string{b}}}
		}
		compiled, errs, _ := certpolicy.Compile(p)
		if (compiled.Err() == nil) != (len(errs) == 0) {
			t.Fatalf("%v, %v", compiled.Err(), errs)
		}
		s := certpolicy.SetOf([]*certpolicy.Policy{compiled}, nil)
		d := s.Decide(in)
		if encode(t, d) != encode(t, s.Decide(in)) {
			t.Fatal("the decision is another one the second time")
		}
		if len(errs) > 0 && d.Outcome != v1alpha1.OutcomeLeave {
			t.Fatalf("an Allow that is not valid: %s", brief(d))
		}
		if len(errs) == 0 {
			checkDecision(t, d, &in.Request)
		}
	})
}
