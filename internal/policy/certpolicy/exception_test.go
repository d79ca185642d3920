package certpolicy_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// strict refuses most requests, by conditions with addresses of every form.
const strict = `
effect: Limit
match: {signers: ["*"]}
certificate:
  subject: {commonName: {patterns: [good]}, other: [{oid: 1.2.840.113549.1.9.1, patterns: [good]}]}
  names: {max: 2, dns: {zones: [shop.example.com], max: 2}, uri: {patterns: ["https://good.example/*"]}}
  authority: {allowed: false}
  usages: {allowed: [digital signature, server auth]}
rules:
- {name: no-bob, expression: "requester.username != 'bob'"}
- {name: fails, expression: "!('fails' in request.labels) || request.labels['none'] == 'x'"}
`

// TestExceptions: an exception covers only its items, its values and its
// requests, and ends to the second.
func TestExceptions(t *testing.T) {
	x := func(items, more string) string {
		return `{policies: [p], items: [` + items + `], reason: test, notAfter: "2026-11-22T09:00:00Z", match: {signers: ["*"], requesters: {users: [alice, bob]}}` + more + `}`
	}
	foreign := func(a *asked) { a.dns = append(a.dns, "www.example.org") }
	const dns = "p certificate.names.dns NameNotPermitted dnsNames[1]=www.example.org"
	before := func(a *asked) { a.at, a.created = now.Add(-time.Second), now.Add(-time.Minute) }
	tests := []struct {
		reason, exception string
		ask               []func(*asked)
		want              string
	}{
		{"its item", x("certificate.names.dns", ""), fns(foreign), "Approve; (" + dns + " by x)"},
		{"an item above", x("certificate.names", ""), fns(foreign), "Approve; (" + dns + " by x)"},
		{"an item beside", x("certificate.names.ip", ""), fns(foreign), "Deny; " + dns},
		{"an item below", x("certificate.names.dns.max", ""), fns(foreign), "Deny; " + dns},
		{"a rule with the same beginning", x(`"rules[no-b]"`, ""), fns(func(a *asked) { a.user = "bob" }), "Deny; p rules[no-bob] RuleViolated"},
		{"another policy", strings.Replace(x("certificate.names.dns", ""), "[p]", "[q]", 1), fns(foreign), "Deny; " + dns},
		{"one item of two", x("certificate.names.dns", ""), fns(foreign, func(a *asked) { a.user = "bob" }), "Deny; (" + dns + " by x); p rules[no-bob] RuleViolated"},
		{"a rule", x(`"rules[no-bob]"`, ""), fns(func(a *asked) { a.user = "bob" }), "Approve; (p rules[no-bob] RuleViolated by x)"},
		{"a rule that fails", x(`"rules[fails]"`, ""), fns(func(a *asked) { a.labels = map[string]string{"fails": ""} }), "Approve; (p rules[fails] ExpressionFailed by x)"},
		{"another rule", x(`"rules[fails]"`, ""), fns(func(a *asked) { a.user = "bob" }), "Deny; p rules[no-bob] RuleViolated"},
		{"an attribute by its identifier", x(`"certificate.subject.other[1.2.840.113549.1.9.1]"`, ""), fns(func(a *asked) { a.subject = rdn("emailAddress", "bad") }),
			"Approve; (p certificate.subject.other[1.2.840.113549.1.9.1] SubjectNotPermitted subject.other[1.2.840.113549.1.9.1][0]=bad by x)"},

		{"its value", x("certificate.names.dns", `, values: [WWW.example.org]`), fns(foreign), "Approve; (" + dns + " by x)"},
		{"another value", x("certificate.names.dns", `, values: [example.org]`), fns(foreign), "Deny; " + dns},
		{"one value of two", x("certificate.names.dns", `, values: [www.example.org]`), fns(func(a *asked) { a.dns = []string{"a.example.org", "www.example.org"} }),
			"Deny; p certificate.names.dns NameNotPermitted dnsNames[0]=a.example.org; (" + dns + " by x)"},
		{"a text in another case", x("certificate.subject.commonName", `, values: [Root]`), fns(func(a *asked) { a.subject = rdn("CN", "root") }),
			"Deny; p certificate.subject.commonName SubjectNotPermitted subject.commonName=root"},
		{"a URI in another case", x("certificate.names.uri", `, values: ["https://bad.example/A"]`), fns(func(a *asked) { a.uris = []string{"https://bad.example/a"} }),
			"Deny; p certificate.names.uri NameNotPermitted uris[0]=https://bad.example/a"},
		{"a violation without a value", x(`"rules[no-bob]"`, `, values: [bob]`), fns(func(a *asked) { a.user = "bob" }), "Deny; p rules[no-bob] RuleViolated"},
		{"a number of names", x("certificate.names.max", ""), fns(func(a *asked) { a.ips = []string{"10.0.0.1", "10.0.0.2"} }), "Approve; (p certificate.names.max TooManyNames names=3 by x)"},
		{"a number of names, its value", x("certificate.names.max", `, values: ["4"]`), fns(func(a *asked) { a.ips = []string{"10.0.0.1", "10.0.0.2"} }), "Deny; p certificate.names.max TooManyNames names=3"},

		{"another requester", x("certificate.names.dns", ""), fns(foreign, func(a *asked) { a.user = "carol" }), "Deny; " + dns},
		{"a second before its end", x("certificate.names.dns", ""), fns(foreign, before), "Approve; (" + dns + " by x)"},
		{"at its end", x("certificate.names.dns", ""), fns(foreign, func(a *asked) { a.at = now }), "Deny; " + dns},

		{"a CA", x(`certificate.subject, certificate.names, certificate.usages, "rules[no-bob]"`, ""), fns(func(a *asked) { a.usages = append(a.usages, "cert sign") }),
			"Deny; p certificate.authority.allowed CertificateAuthorityNotPermitted isCA=true; (p certificate.usages.allowed UsageNotPermitted usages[2]=cert sign by x)"},
		{"what cannot be read", x("certificate.subject, certificate.names", ""), fns(func(a *asked) { a.san = []byte{0x30, 0x80} }), "Deny; p request InvalidRequest request"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s := setWith(t, map[string]string{"p": strict, "everything": everything}, map[string]string{"x": tc.exception})
			a := of(csrs).but(before).but(tc.ask...)
			if got := brief(decide(t, s, a)); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestExceptionsOfPeople: people are required in spite of exceptions.
func TestExceptionsOfPeople(t *testing.T) {
	s := setWith(t, map[string]string{
		"everything": everything,
		"p":          `{effect: Limit, match: {signers: ["*"], kinds: [CertificateSigningRequest]}, certificate: {names: {dns: {zones: [example.org]}}}, approval: {mode: People, people: {count: 2}}}`,
	}, map[string]string{"x": always90("certificate.names")})
	if got := brief(decide(t, s, of(csrs))); got != "NeedPeople; (p certificate.names.dns NameNotPermitted dnsNames[0]=www.shop.example.com by x)" {
		t.Errorf("the decision is %s", got)
	}
}

// TestExceptionOfUnknownFacts: an exception from a condition also covers that
// its fact never became known.
func TestExceptionOfUnknownFacts(t *testing.T) {
	s := setWith(t, map[string]string{
		"everything": everything, "p": `{effect: Limit, match: {signers: ["*"]}, certificate: {names: {dns: {expression: node.hostnames}}}}`,
	}, map[string]string{"x": always90("certificate.names.dns")})
	late := func(a *asked) { a.created = now.Add(-time.Hour) }
	if got := brief(decide(t, s, of(csrs).but(kubelet, nodeN1(), late))); got != "Approve; (p certificate.names.dns.expression FactMissing by x)" {
		t.Errorf("the decision is %s", got)
	}
	other := setWith(t, map[string]string{
		"everything": everything, "p": `{effect: Limit, match: {signers: ["*"], conditions: [{name: a, expression: "node.hostnames.size() > 0"}]}, certificate: {names: {dns: {max: 1}}}}`,
	}, map[string]string{"x": always90("certificate.names.dns")})
	if got := brief(decide(t, other, of(csrs).but(kubelet, nodeN1(), late))); got != "Deny; p match FactMissing" {
		t.Errorf("the decision is %s", got)
	}
}

// always90 is an exception for everybody from items of the policy p.
func always90(items string) string {
	return `{policies: [p], items: [` + items + `], reason: test, notAfter: "2027-01-01T00:00:00Z", match: {signers: ["*"], requesters: {users: ["*"]}}}`
}

// TestExceptionMatch: whether an exception is about a request is asked once,
// and not by the budgets of the policies' own expressions.
func TestExceptionMatch(t *testing.T) {
	x := strings.Replace(always90("certificate.names"), `users: ["*"]}`, `users: ["*"]}, conditions: [{name: a, expression: "[1, 2, 3].all(n, n > 0)"}]`, 1)
	s := setWith(t, map[string]string{"everything": everything, "p": strict}, map[string]string{"x": x})
	cost := func(n int) uint64 {
		return decide(t, s, of(csrs).but(func(a *asked) {
			a.dns = nil
			for i := range n {
				a.dns = append(a.dns, fmt.Sprintf("n%d.example.org", i))
			}
		})).Cost
	}
	if one, many := cost(1), cost(500); one != many || one == 0 {
		t.Errorf("with one violation, the expressions cost %d, with 500 %d", one, many)
	}
}

// exceptionFields are exceptions from the policy p that cover the violation of
// a request with the field, or not, and otherwise without it.
func exceptionFields() map[string]exceptionCase {
	match := func(text, lenient string, ask func(*asked)) exceptionCase {
		return exceptionCase{spec: "match: " + text, ask: ask, instead: lenient}
	}
	both := `, requesters: {users: ["*"]}, namespaces: {names: ["*"]}}`
	crb := func(a *asked) { *a = of(crs).but(func(b *asked) { b.dns = a.dns }) }
	account := func(a *asked) { crb(a); a.user = "system:serviceaccount:ops:web" }
	return map[string]exceptionCase{
		"policies": {spec: "policies: [p]", ask: nil, covered: true, instead: `[q]`},
		"items":    {spec: "items: [certificate.names.dns]", covered: true, instead: `[certificate.names.ip]`},
		"values":   {spec: "values: [other.example.org]", instead: "null"},
		"notAfter": {spec: `notAfter: "2026-11-22T08:00:00Z"`, instead: `"2026-11-22T10:00:00Z"`},
		"reason":   {spec: "reason: test", covered: true, same: true, instead: "other"},

		"match.signers":                             match(`{signers: [example.org/*], requesters: {users: ["*"]}}`, `["*"]`, nil),
		"match.kinds":                               match(`{signers: ["*"], kinds: [CertificateRequest], requesters: {users: ["*"]}}`, `null`, nil),
		"match.origins":                             match(`{signers: ["*"], origins: [ACME], requesters: {users: ["*"]}}`, `null`, nil),
		"match.namespaces.names":                    match(`{signers: ["*"], namespaces: {names: [ops]}, requesters: {users: ["*"]}}`, `null`, crb),
		"match.namespaces.excluded":                 match(`{signers: ["*"], namespaces: {excluded: [shop]}`+strings.Replace(both, `, namespaces: {names: ["*"]}`, "", 1), `null`, crb),
		"match.namespaces.selector":                 match(`{signers: ["*"], namespaces: {selector: {matchLabels: {team: ops}}}, requesters: {users: ["*"]}}`, `null`, crb),
		"match.requesters.users":                    match(`{signers: ["*"], requesters: {users: [bob]}}`, `["*"]`, nil),
		"match.requesters.groups":                   match(`{signers: ["*"], requesters: {groups: [ops]}}`, `["*"]`, nil),
		"match.requesters.serviceAccounts":          match(`{signers: ["*"], requesters: {serviceAccounts: [shop/web]}}`, `["*/*"]`, account),
		"match.requesters.excluded.users":           match(`{signers: ["*"], requesters: {users: ["*"], excluded: {users: [alice]}}}`, `null`, nil),
		"match.requesters.excluded.groups":          match(`{signers: ["*"], requesters: {users: ["*"], excluded: {groups: ["team-*"]}}}`, `null`, nil),
		"match.requesters.excluded.serviceAccounts": match(`{signers: ["*"], requesters: {users: ["*"], excluded: {serviceAccounts: [ops/web]}}}`, `null`, account),
		"match.conditions[].expression":             match(`{signers: ["*"], requesters: {users: ["*"]}, conditions: [{name: a, expression: "requester.username == 'bob'"}]}`, `"true"`, nil),
		"match.conditions[].name":                   {spec: `match: {signers: ["*"], requesters: {users: ["*"]}, conditions: [{name: a, expression: "true"}]}`, covered: true, same: true, instead: "b"},
	}
}

type exceptionCase struct {
	spec string
	ask  func(*asked)
	// covered: the exception covers the violation. same: also with instead.
	covered, same bool
	instead       string
}

// TestExceptionFields: each field of an exception is read.
func TestExceptionFields(t *testing.T) {
	cases := exceptionFields()
	for _, field := range leaves(reflect.TypeFor[v1alpha1.CertificatePolicyExceptionSpec](), "") {
		_, has := cases[field]
		if has == strings.HasPrefix(field, "match.access") { // exceptions have none, see TestCompileException
			t.Errorf("the field %s has no case, or needs none", field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(cases)) {
		t.Run(field, func(t *testing.T) { cases[field].run(t, field) })
	}
}

func (tc exceptionCase) run(t *testing.T, field string) {
	spec, more := map[string]any{}, map[string]any{}
	if err := yaml.Unmarshal([]byte(always90("certificate.names.dns")), &spec); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(tc.spec), &more); err != nil {
		t.Fatal(err)
	}
	maps.Copy(spec, more)
	var instead any
	if err := yaml.Unmarshal([]byte(tc.instead), &instead); err != nil {
		t.Fatal(err)
	}
	check := func(spec string, covered bool) {
		t.Helper()
		s := setWith(t, map[string]string{"p": strict, "everything": everything}, map[string]string{"x": spec})
		d := decide(t, s, of(csrs).but(func(a *asked) { a.dns = []string{"www.example.org"} }, tc.ask))
		want := v1alpha1.OutcomeDeny
		if covered {
			want = v1alpha1.OutcomeApprove
		}
		if d.Outcome != want {
			t.Errorf("%s, want %s, with\n%s", brief(d), want, spec)
		}
	}
	check(text(t, spec), tc.covered)
	if !change(spec, strings.Split(field, "."), instead) {
		t.Fatalf("no field %s in %s", field, text(t, spec))
	}
	check(text(t, spec), tc.covered == tc.same)
}

// TestLeft: how long an exception lasts, in words.
func TestLeft(t *testing.T) {
	x, _ := certpolicy.CompileException(exception(t, "x", always90("certificate.names")))
	end := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		before time.Duration
		want   string
	}{{90 * 24 * time.Hour, "90 days"}, {48 * time.Hour, "2 days"}, {47*time.Hour + 59*time.Minute + 30*time.Second, "47h59m0s"}, {time.Minute, "1m0s"}, {time.Second, "less than a minute"}, {0, "ended"}, {-time.Hour, "ended"}} {
		if got := x.Left(end.Add(-tc.before)); got != tc.want {
			t.Errorf("%v before its end: %s, want %s", tc.before, got, tc.want)
		}
	}
}

// TestExceptionOfLimitAndAllow: exceptions cover violations of both effects, and
// the decision is made of what is left.
func TestExceptionOfLimitAndAllow(t *testing.T) {
	x := strings.Replace(always90("certificate.names.dns"), "[p]", "[web, p]", 1)
	for _, tc := range []struct {
		reason, limit, want string
	}{
		{"both", `{names: {dns: {zones: [example.net]}}}`, "Approve"},
		{"an Allow, while a Limit is violated elsewhere", `{keys: {types: [RSA2048]}}`, "Deny"},
	} {
		s := setWith(t, map[string]string{"web": web, "p": `{effect: Limit, match: {signers: ["*"]}, certificate: ` + tc.limit + `}`}, map[string]string{"x": x})
		d := decide(t, s, of(csrs).but(func(a *asked) { a.dns = []string{"www.example.org"}; a.key = pki.ECDSAP256 }))
		if string(d.Outcome) != tc.want {
			t.Errorf("%s: %s", tc.reason, brief(d))
		}
	}
}
