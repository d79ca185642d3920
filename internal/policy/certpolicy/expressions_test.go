package certpolicy_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/expression"
)

const (
	ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
	// fails has no value for any request.
	fails = "request.labels['none'] == 'x'"
)

var (
	// dear costs about a tenth of what an expression may, tooDear more than it
	// may.
	dear    = ten + ".all(a, !'" + strings.Repeat("x", 1000) + "'.matches('" + strings.Repeat("y", 1000) + "'))"
	tooDear = ten + ".all(a, " + ten + ".all(b, !'" + strings.Repeat("x", 1000) + "'.matches('" + strings.Repeat("y", 1000) + "')))"
)

// TestFailingExpressions: an expression that has no value, or costs too much,
// never lets a request pass.
func TestFailingExpressions(t *testing.T) {
	for name, failing := range map[string]string{"fails": fails, "too dear": tooDear} {
		allow := `certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}}`
		rule := `rules: [{name: r, expression: "` + failing + `"}]`
		match := `match: {signers: ["*"], conditions: [{name: c, expression: "` + failing + `"}]}`
		for _, tc := range []struct {
			reason, policy string
			want           string
		}{
			{"a rule of an Allow", "effect: Allow\nmatch: {signers: ['*']}\n" + allow + "\n" + rule, "Deny; p rules[r] ExpressionFailed"},
			{"a rule of a Limit", "effect: Limit\nmatch: {signers: ['*']}\n" + rule, "Deny; p rules[r] ExpressionFailed"},
			{"a condition of an Allow, which does not allow", "effect: Allow\n" + match + "\n" + allow, "Leave"},
			{"a condition of a Limit, which applies", "effect: Limit\n" + match + "\n" + `rules: [{name: never, expression: "false"}]`, "Deny; p rules[never] RuleViolated"},
			{"a condition of a DenyRest, which applies", "effect: DenyRest\n" + match, "Deny; p effect NotAllowed"},
			{"the names of an Allow", "effect: Allow\nmatch: {signers: ['*']}\n" + `certificate: {names: {dns: {expression: "` + failing + ` ? ['www.shop.example.com'] : []"}}, usages: {allowed: [any, digital signature]}}`,
				"Deny; p certificate.names.dns.expression ExpressionFailed dnsNames[0]=www.shop.example.com"},
		} {
			d := decide(t, set(t, map[string]string{"p": tc.policy}), of(csrs))
			if got := brief(d); got != tc.want {
				t.Errorf("%s %s: %s, want %s", tc.reason, name, got, tc.want)
			}
		}
	}
}

// TestTooDearEndsSoon: expressions that never end by themselves hold up a decision for
// 150 ms of a processor at most each, whatever they do: they end after a bounded amount of work.
func TestTooDearEndsSoon(t *testing.T) {
	many := "[" + strings.TrimSuffix(strings.Repeat("1, ", 100), ", ") + "]"
	for what, tc := range map[string]struct {
		expression string
		// most is what the expression may cost until it ends. A turn of the loops costs 11.
		most uint64
	}{
		"matches": {tooDear, expression.Limit + expression.Limit/8},
		"loops":   {many + ".all(a, " + many + ".all(b, " + many + ".all(c, " + many + ".all(d, a + b + c + d > 0))))", 150_000},
	} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, rules: [{name: r, expression: "` + tc.expression + `"}]}`})
		in := of(csrs).input(t)
		least := time.Hour // of five: garbage is collected meanwhile
		for range 5 {
			began := processorTime(t)
			d := s.Decide(in)
			if brief(d) != "Deny; p rules[r] ExpressionFailed" {
				t.Fatalf("%s: %s", what, brief(d))
			}
			least = min(least, processorTime(t)-began)
			if d.Cost > tc.most {
				t.Errorf("%s: refused after a cost of %d", what, d.Cost)
			}
		}
		if least > 150*time.Millisecond {
			t.Errorf("%s: refused after %v of a processor", what, least)
		}
	}
}

// processorTime returns the time for which processors have run this process. Unlike time on
// a clock, it does not grow while others run.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestWhyAllowDoesNotApply: operators see how a condition failed.
func TestWhyAllowDoesNotApply(t *testing.T) {
	s := set(t, map[string]string{"p": `{effect: Allow, match: {signers: ["*"], conditions: [{name: c, expression: "` + fails + `"}]}, certificate: {usages: {allowed: [any]}}}`})
	got := considered(t, decide(t, s, of(csrs)), "p")
	want := "match.conditions[c]: the policy's expression failed for this request: no such key: none: ask for it first, with has(a.b) or a[?'b'].orValue('')"
	if got.Applies || got.Because != want {
		t.Errorf("the policy %+v", got)
	}
}

// TestBudgets: the expressions of one policy never take from those of another,
// as long as all together are within theirs.
func TestBudgets(t *testing.T) {
	var rules []string
	for i := range 50 {
		rules = append(rules, fmt.Sprintf(`{name: r%d, expression: "%s"}`, i, dear))
	}
	s := set(t, map[string]string{
		"a-dear":  `{effect: Limit, match: {signers: ["*"]}, rules: [` + strings.Join(rules, ", ") + `]}`,
		"b-cheap": `{effect: Limit, match: {signers: ["*"], conditions: [{name: bob, expression: "requester.username == 'bob'"}]}, rules: [{name: never, expression: "false"}]}`,
		"c-allow": everything,
	})
	d := decide(t, s, of(csrs))
	if d.Outcome != v1alpha1.OutcomeDeny || d.Reason != certpolicy.ReasonExpression {
		t.Errorf("the decision is %s", brief(d))
	}
	if b := considered(t, d, "b-cheap"); b.Applies || b.Because != "match.conditions[bob]: the expression is false" {
		t.Errorf("after a policy that spent its budget, another says %+v", b)
	}
	if d.Cost > expression.Budget+expression.Limit {
		t.Errorf("the expressions cost %d", d.Cost)
	}
}

// TestManyDearPolicies: all expressions of a decision are bounded, whatever the
// number of policies.
func TestManyDearPolicies(t *testing.T) {
	specs := map[string]string{}
	for i := range 40 {
		specs[fmt.Sprintf("p%02d", i)] = `{effect: Limit, match: {signers: ["*"]}, rules: [{name: a, expression: "` + dear + `"}, {name: b, expression: "` + dear + `"}, {name: c, expression: "` + tooDear + `"}]}`
	}
	d := decide(t, set(t, specs), of(csrs))
	if d.Outcome != v1alpha1.OutcomeDeny || d.Cost > expression.DecisionBudget+expression.Limit {
		t.Errorf("%s at the cost of %d", d.Outcome, d.Cost)
	}
}

// TestExpressionOnce: an expression for names is evaluated once, not for each
// name.
func TestExpressionOnce(t *testing.T) {
	s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {names: {dns: {expression: "request.dnsNames"}}}}`})
	cost := func(n int) uint64 {
		return decide(t, s, of(csrs).but(func(a *asked) {
			a.dns = nil
			for i := range n {
				a.dns = append(a.dns, fmt.Sprintf("n%d.example.org", i))
			}
		})).Cost
	}
	if one, many := cost(1), cost(200); one != many {
		t.Errorf("for one name it costs %d, for 200 %d", one, many)
	}
}

// TestVariables: policies see the request, and what the signer would issue.
func TestVariables(t *testing.T) {
	for _, tc := range []struct {
		kind v1alpha1.RequestKind
		ask  func(*asked)
		text string
	}{
		{csrs, nil, "request.kind == 'CertificateSigningRequest' && request.namespace == '' && request.origin == 'Direct' && request.signer.name == 'example.com/web'"},
		{crs, nil, "request.kind == 'CertificateRequest' && request.namespace == 'shop' && request.signer.name == 'clusterissuers.cert-manager.io/internal' && request.signer.kind == 'ClusterIssuer' && request.signer.issuer == 'internal'"},
		{pcrs, nil, "request.kind == 'PodCertificateRequest' && pod.metadata.labels.app == 'web' && serviceAccount.metadata.name == 'web' && requester.serviceAccount.name == 'web' && node.metadata.name == 'n1'"},
		{csrs, nil, "request.dnsNames == ['www.shop.example.com'] && certificate.dnsNames == request.dnsNames && request.keyType == 'ECDSAP256' && request.expirationSeconds == 86400 && certificate.lifetimeSeconds == 86400"},
		{csrs, nil, "request.subject.empty && request.subject.commonName == '' && request.subject.other.size() == 0 && !request.isCA && request.signatureAlgorithm == 'ECDSA-SHA256'"},
		{csrs, func(a *asked) { a.subject = rdn("O", "x", "O", "y", "CN", "a", "CN", "b", "UID", "u") },
			"request.subject.organizations == ['x', 'y'] && request.subject.commonNames == ['a', 'b'] && request.subject.other[0].oid == '0.9.2342.19200300.100.1.1' && request.subject.other[0].value == 'u'"},
		{csrs, func(a *asked) { a.usages = []string{"signing", "cert sign"} }, "request.isCA && certificate.isCA && request.usages == ['signing', 'cert sign'] && certificate.usages == ['digital signature', 'cert sign']"},
		{csrs, func(a *asked) { a.ips = []string{"::ffff:10.0.0.1", "2001:db8::1"} }, "request.ipAddresses == ['10.0.0.1', '2001:db8::1'] && ip(request.ipAddresses[0]).family() == 4"},
		{csrs, kubelet, "requester.nodeName == 'n1' && requester.groups.exists(g, g == 'system:nodes') && !has(node.metadata)"},
		{csrs, func(a *asked) { a.extra = map[string][]string{"example.com/x": {"y"}} }, "requester.extra['example.com/x'] == ['y'] && requester.uid == 'u-alice' && !has(requester.serviceAccount)"},
		{crs, nil, "namespaceObject.metadata.labels.team == 'shop'"},
		{crs, func(a *asked) { a.labels = map[string]string{"l": "1"}; a.annotations = map[string]string{"a": "2"} }, "request.labels.l == '1' && request.metadataAnnotations.a == '2' && request.annotations.size() == 0"},
		{pcrs, func(a *asked) {
			a.podAnnotations = map[string]string{"example.com/a": "2"}
			a.services = []string{"web"}
		}, "request.annotations['example.com/a'] == '2' && services[0].name == 'web'"},
	} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, rules: [{name: r, expression: "` + tc.text + `"}]}`, "everything": everything})
		if d := decide(t, s, of(tc.kind).but(tc.ask)); considered(t, d, "p").Holds != true {
			t.Errorf("%s: %s", tc.text, d.Message)
		}
	}
}
