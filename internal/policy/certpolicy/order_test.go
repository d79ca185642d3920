package certpolicy_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// shuffled are policies with several values in every list, most of which refuse
// the request of TestOrder.
var shuffled = map[string]string{
	"limit-lists": `
effect: Limit
match:
  kinds: [CertificateRequest, CertificateSigningRequest]
  origins: [Direct, Certificate]
  signers: ["clusterissuers.cert-manager.io/*", "example.com/*"]
  namespaces: {names: [shop, "shop-*"], excluded: [ops, dev], selector: {matchExpressions: [{key: team, operator: In, values: [shop, ops]}, {key: team, operator: Exists}]}}
  requesters: {users: [alice, bob], groups: [a, b], serviceAccounts: [a/b, c/d], excluded: {users: [x, y]}}
  access: [{verb: use}, {verb: view, group: example.com, resource: zones}]
  conditions: [{name: a, expression: "true"}, {name: b, expression: "request.labels.exists(k, k == 'a')"}]
certificate:
  subject:
    commonName: {patterns: ["a*", "b*"], matches: ["a.*b", "c.*d"], inNames: true}
    organizations: {patterns: ["x*", "{namespace}"], exactly: [one, two], max: 1}
    other: [{oid: 1.2.840.113549.1.9.1, patterns: [a, b]}, {oid: 0.9.2342.19200300.100.1.1, required: true, matches: [x, y]}]
  names:
    max: 2
    dns: {zones: [b.example.com, a.example.com], patterns: ["b.{podLabel:x}", "a.{podLabel:y}"], matches: [x, y], excluded: {zones: [bad.example.org, example.org], patterns: ["*.b.bad.example.org", "a.*.bad.example.org"]}}
    ip: {cidrs: [10.0.0.0/8, 172.16.0.0/12], excluded: {cidrs: [192.0.2.0/24, 192.0.0.0/8]}}
    uri: {patterns: ["https://b.example.com/*", "https://a.example.com/*"]}
    email: {domains: [b.example.com, a.example.com], patterns: ["x@*", "y@*"]}
    other: [{oid: 1.2.3, required: true}, {oid: 1.2.4, required: true, patterns: [b, a]}]
  keys: {types: [RSA4096, ED25519, RSA3072]}
  usages: {allowed: [client auth, key encipherment, any], required: [key encipherment, client auth]}
  authority: {allowed: true, permitted: {dns: [b.example.com, a.example.com], ip: [10.0.0.0/8, 172.16.0.0/12]}}
  extensions: {allowed: [1.2.5, 1.2.4]}
rules:
- {name: b, kinds: [CertificateRequest, CertificateSigningRequest], expression: "request.dnsNames.size() > 5", messageExpression: "request.labels.map(k, k).join(',')"}
- {name: a, expression: "request.labels.all(k, request.labels[k] == 'x')", messageExpression: "requester.extra.map(k, k + requester.extra[k].join('')).join(',')"}
- {name: c, expression: "namespaceObject.metadata.labels.map(k, k)[0] == 'x'", message: c}
`,
	"limit-people": `
effect: Limit
match: {signers: ["*"], kinds: [CertificateRequest, CertificateSigningRequest]}
approval: {mode: People, people: {count: 3, from: [{groups: [security, pki], users: [zoe, ann], count: 1}, {groups: [ops, dev], count: 1}]}}
`,
	"limit-open": `
effect: Limit
match: {signers: ["*"]}
certificate: {names: {dns: {patterns: ["x.{podLabel:a}", "www.*.example.com", "*.b.bad.example.org"]}, uri: {}, email: {}}}
rules: [{name: z, expression: "owner.metadata.name == 'a'"}, {name: y, expression: "request.origin == 'Direct' && owner.metadata.name != 'b'"}]
`,
	"allow-a": `
effect: Allow
match: {signers: ["*", "example.com/web"]}
certificate: {names: {dns: {zones: [b.example.com, a.example.com]}, ip: {}, uri: {matches: [b, a]}}, usages: {allowed: [server auth, digital signature]}}
message: ask a
`,
	"allow-b": `
effect: Allow
match: {signers: ["*"], namespaces: {names: [ops, dev]}}
certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}}
`,
	"allow-c": web,
	"rest":    `{effect: DenyRest, match: {signers: ["example.com/*", "*"]}}`,
	"shadow":  "mode: Warn\nreplaces: allow-c\n" + everything,
	"other":   `{effect: Limit, match: {signers: [example.org/b, example.org/a]}, rules: [{name: never, expression: "false"}]}`,
}

const shuffledException = `{policies: [limit-lists, allow-a], items: [certificate.names.dns, "rules[a]"], values: [www.a.bad.example.org, www.example.net],
  reason: test, notAfter: "2026-12-01T00:00:00Z", match: {signers: ["*", "a/b"], requesters: {users: [alice, bob]}, conditions: [{name: b, expression: "true"}, {name: a, expression: "true"}]}}`

// TestOrder: the order of policies and of all their lists makes no difference,
// down to the last byte, and neither does another attempt.
func TestOrder(t *testing.T) {
	manyLabels := map[string]string{}
	for i := range 9 {
		manyLabels[fmt.Sprintf("label-%d", i)] = fmt.Sprint(i)
	}
	bad := func(a *asked) {
		a.labels, a.namespaceLabels, a.extra = manyLabels, manyLabels, map[string][]string{"a": {"1"}, "b": {"2"}, "c": {"3"}, "d": {"4"}}
		a.namespaceLabels["team"] = "shop"
		a.subject = rdn("CN", "x", "O", "z", "O", "one", "emailAddress", "c", "OU", "q")
		a.dns = []string{"www.a.bad.example.org", "a.b.bad.example.org", "www.example.net", "www.shop.example.com"}
		a.ips, a.uris, a.mail = []string{"192.0.2.1", "198.51.100.1"}, []string{"https://c.example.com/a"}, []string{"ann@c.example.com"}
		a.ownerUnknown, a.access = true, map[certpolicy.Access]bool{
			{Verb: "use", Group: "certplane.dev", Resource: "certificatepolicies", Name: "limit-lists", Namespace: "shop"}: true,
			{Verb: "view", Group: "example.com", Resource: "zones", Namespace: "shop"}:                                     true,
		}
		a.votes = []quorum.Vote{{Username: "bob", Groups: []string{"pki", "ops"}, Time: now}, {Username: "carol", Groups: []string{"dev", "security"}, Time: now}}
	}
	noAccess := func(a *asked) {
		for access := range a.access {
			a.access[access] = false
		}
	}
	unknown := func(a *asked) { a.ownerUnknown, a.originUnknown = true, true }
	tests := []struct {
		policies []string
		outcome  v1alpha1.DecisionOutcome
		in       certpolicy.Input
	}{
		{nil, "Deny", of(crs).but(bad).input(t)},
		{nil, "Deny", of(crs).but(bad, noAccess).input(t)},
		{nil, "Deny", of(csrs).but(func(a *asked) { a.dns = nil }).input(t)},
		{[]string{"limit-people", "allow-c", "other", "shadow"}, "NeedPeople", of(crs).but(bad, func(a *asked) {
			a.dns = []string{"www.shop.example.com"}
			a.subject, a.ips, a.uris, a.mail = nil, nil, nil, nil
		}).input(t)},
		{[]string{"limit-open", "limit-lists", "allow-c", "rest"}, "Wait", of(crs).but(bad, unknown, func(a *asked) { a.access = nil; a.dns = []string{"www.shop.example.com"}; a.uris, a.mail = nil, nil }).input(t)},
		{[]string{"rest", "shadow", "allow-b"}, "Deny", of(crs).input(t)},
		{[]string{"allow-c", "other", "limit-people"}, "Approve", of(pcrs).input(t)},
	}
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	random := rand.New(rand.NewPCG(1, 2))
	variants := compiledVariants(t, random)
	x := exceptionVariants(t, random)
	for _, tc := range tests {
		first := ""
		for round := range rounds {
			got := encode(t, anySet(random, round, variants, x, tc.policies).Decide(tc.in))
			if first == "" {
				first = got
			}
			if got != first {
				t.Fatalf("%s by %v, in round %d:\n%s", tc.outcome, tc.policies, round, firstDifference(first, got))
			}
		}
		if !strings.Contains(first, `"outcome": "`+string(tc.outcome)+`"`) {
			t.Errorf("want %s: %s", tc.outcome, first)
		}
	}
}

// compiledVariants returns each policy with its lists in many orders, first as
// they are written.
func compiledVariants(t *testing.T, random *rand.Rand) map[string][]*certpolicy.Policy {
	t.Helper()
	all := map[string][]*certpolicy.Policy{}
	for _, name := range slices.Sorted(maps.Keys(shuffled)) {
		for i := range 20 {
			all[name] = append(all[name], compiled(t, policy(t, name, permuted(t, random, i, shuffled[name]))))
		}
	}
	return all
}

func exceptionVariants(t *testing.T, random *rand.Rand) map[string][]*certpolicy.Exception {
	t.Helper()
	all := map[string][]*certpolicy.Exception{}
	for _, name := range []string{"x", "y"} {
		for i := range 20 {
			one, errs := certpolicy.CompileException(exception(t, name, permuted(t, random, i, shuffledException)))
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			all[name] = append(all[name], one)
		}
	}
	return all
}

// anySet returns a set of the policies, or of all, each in any of its variants;
// in the first round as they are written.
func anySet(random *rand.Rand, round int, variants map[string][]*certpolicy.Policy, exceptions map[string][]*certpolicy.Exception, names []string) *certpolicy.Set {
	if names == nil {
		names = slices.Sorted(maps.Keys(variants))
	}
	pick := func(n int) int {
		if round == 0 {
			return 0
		}
		return random.IntN(n)
	}
	var policies []*certpolicy.Policy
	for _, name := range names {
		policies = append(policies, variants[name][pick(20)])
	}
	exempt := []*certpolicy.Exception{exceptions["x"][pick(20)], exceptions["y"][pick(20)]}
	if round > 0 {
		random.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
		random.Shuffle(2, func(i, j int) { exempt[i], exempt[j] = exempt[j], exempt[i] })
	}
	return certpolicy.SetOf(policies, exempt)
}

// permuted returns the document with all its lists in another order.
func permuted(t *testing.T, random *rand.Rand, round int, document string) string {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(document), &value); err != nil {
		t.Fatal(err)
	}
	if round > 0 {
		permute(random, value)
	}
	return text(t, value)
}

func permute(random *rand.Rand, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if key != "access" { // its elements are addressed by their index
				permute(random, value[key])
			}
		}
	case []any:
		random.Shuffle(len(value), func(i, j int) { value[i], value[j] = value[j], value[i] })
		for _, one := range value {
			permute(random, one)
		}
	}
}

func firstDifference(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf("-%s\n+%s", left[i], right[i])
		}
	}
	return "one is longer"
}
