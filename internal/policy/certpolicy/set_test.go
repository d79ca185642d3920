package certpolicy_test

import (
	"slices"
	"testing"
	"time"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// TestSignerNames: one name space for the signers of all kinds.
func TestSignerNames(t *testing.T) {
	for _, tc := range []struct {
		reason string
		ask    asked
		want   string
	}{
		{"a signer", of(csrs), "example.com/web"},
		{"a pod's signer", of(pcrs), "example.com/web"},
		{"a ClusterIssuer", of(crs), "clusterissuers.cert-manager.io/internal"},
		{"an Issuer", of(crs).but(func(a *asked) { a.issuer = &cmmeta.IssuerReference{Name: "ca"} }), "issuers.cert-manager.io/shop.ca"},
		{"an Issuer, in full", of(crs).but(func(a *asked) {
			a.issuer = &cmmeta.IssuerReference{Name: "ca", Kind: "Issuer", Group: "cert-manager.io"}
		}), "issuers.cert-manager.io/shop.ca"},
		{"an issuer as a signer", of(csrs).but(func(a *asked) { a.signer = "issuers.cert-manager.io/shop.ca" }), "issuers.cert-manager.io/shop.ca"},
		{"an issuer of another group", of(crs).but(func(a *asked) {
			a.issuer = &cmmeta.IssuerReference{Name: "ca", Kind: "AWSPCAIssuer", Group: "awspca.cert-manager.io"}
		}), "awspcaissuers.awspca.cert-manager.io/shop.ca"},
		{"a kind that ends with y", of(crs).but(func(a *asked) {
			a.issuer = &cmmeta.IssuerReference{Name: "ca", Kind: "Authority", Group: "example.com"}
		}), "authorities.example.com/shop.ca"},
	} {
		if got := certpolicy.SignerName(tc.ask.input(t).Request); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
		}
	}
}

// TestSigners: which signers a policy is for.
func TestSigners(t *testing.T) {
	for _, tc := range []struct {
		pattern, signer string
		want            bool
	}{
		{"*", "example.com/web", true},
		{"example.com/*", "example.com/web", true},
		{"example.com/*", "example.com/web/a", false},
		{"example.com/w*b", "example.com/web", true},
		{"example.com/web*", "example.com/web", false},
		{"*.example.com/web", "a.example.com/web", true},
		{"*/web", "example.com/web", true},
		{"example.com/web", "example.com/web2", false},
		{"Example.com/web", "example.com/web", false},
		{"issuers.cert-manager.io/shop.*", "issuers.cert-manager.io/shop.ca", true},
		{"issuers.cert-manager.io/shop.*", "issuers.cert-manager.io/shop2.ca", false},
	} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: [example.org/other, "` + tc.pattern + `"], kinds: [CertificateSigningRequest]}, ` + nothing + `}`})
		d := decide(t, s, of(csrs).but(func(a *asked) { a.signer = tc.signer }))
		if got := d.Outcome == v1alpha1.OutcomeDeny; got != tc.want || s.Concerns(csrs, tc.signer) != tc.want || s.Governs(csrs, tc.signer) != tc.want || s.Concerns(crs, tc.signer) {
			t.Errorf("%s and %s: %s", tc.pattern, tc.signer, brief(d))
		}
		if len(d.Considered) > 0 != tc.want {
			t.Errorf("%s and %s: considered %+v", tc.pattern, tc.signer, d.Considered)
		}
	}
}

// TestBecause: the part of match that does not hold is named.
func TestBecause(t *testing.T) {
	use := certpolicy.Access{Verb: "use", Group: "certplane.dev", Resource: "certificatepolicies", Name: "p", Namespace: "shop"}
	for _, tc := range []struct{ match, want string }{
		{`origins: [ACME]`, "match.origins: the origin is Direct"},
		{`namespaces: {names: [ops, dev]}`, "match.namespaces: shop is not among dev, ops"},
		{`namespaces: {excluded: [shop]}`, "match.namespaces: shop is excluded"},
		{`namespaces: {selector: {matchLabels: {team: ops}}}`, "match.namespaces.selector: the labels of the namespace shop are not team=ops"},
		{`requesters: {users: [bob]}`, `match.requesters: "alice" is not among the requesters`},
		{`requesters: {excluded: {users: [alice]}}`, `match.requesters: "alice" is excluded`},
		{`access: [{verb: use}]`, `match.access[0]: "alice" may not use certificatepolicies/p`},
		{`conditions: [{name: a, expression: "true"}, {name: b, expression: "false"}]`, "match.conditions[b]: the expression is false"},
		{`kinds: [CertificateRequest]`, ""},
	} {
		s := set(t, map[string]string{"p": `{effect: Allow, match: {signers: ["*"], ` + tc.match + `}, certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}}}`})
		d := decide(t, s, of(crs).but(func(a *asked) { a.access = map[certpolicy.Access]bool{use: false} }))
		if got := considered(t, d, "p"); got.Because != tc.want || got.Applies != (tc.want == "") {
			t.Errorf("%s: %+v, want %s", tc.match, got, tc.want)
		}
	}
	s := set(t, map[string]string{"p": `{effect: Allow, match: {signers: ["*"], namespaces: {names: ["*"]}}, certificate: {usages: {allowed: [any]}}}`})
	if got := considered(t, decide(t, s, of(csrs)), "p"); got.Because != "match.namespaces: the request is in no namespace" {
		t.Errorf("a request of a person: %+v", got)
	}
}

// TestNeeds: only the facts that policies for the request can read are needed.
func TestNeeds(t *testing.T) {
	rule := func(expression string) string { return `rules: [{name: r, expression: "` + expression + `"}]` }
	limit := func(match, rest string) string {
		return `{effect: Limit, match: {signers: ["*"]` + match + `}, ` + rest + `}`
	}
	plain := `mode: Enforce`
	for _, tc := range []struct {
		spec string
		want certpolicy.Needs
	}{
		{limit("", rule("request.dnsNames.size() > 0")), certpolicy.Needs{}},
		{limit(`, origins: [Direct]`, plain), certpolicy.Needs{Origin: true}},
		{limit("", rule("request.origin == 'Direct'")), certpolicy.Needs{Origin: true}},
		{limit(`, namespaces: {names: [a]}`, plain), certpolicy.Needs{}},
		{limit(`, namespaces: {selector: {matchLabels: {a: b}}}`, plain), certpolicy.Needs{Namespace: true}},
		{limit("", rule("namespaceObject.metadata.name == 'a'")), certpolicy.Needs{Namespace: true}},
		{limit("", `certificate: {names: {dns: {zones: ["{namespaceLabel:a}.example.com"]}}}`), certpolicy.Needs{Namespace: true}},
		{limit("", `certificate: {names: {dns: {excluded: {zones: ["{namespaceLabel:a}.example.com"]}}}}`), certpolicy.Needs{Namespace: true}},
		{limit("", `certificate: {names: {dns: {expression: node.hostnames}}}`), certpolicy.Needs{Node: true}},
		{limit(`, conditions: [{name: a, expression: "owner.metadata.name == 'a'"}]`, plain), certpolicy.Needs{Owner: true}},
		{limit("", rule("pod.metadata.name == 'a'")), certpolicy.Needs{Pod: true}},
		{limit("", `certificate: {names: {uri: {patterns: ["https://a.example/{podLabel:a}"]}}}`), certpolicy.Needs{Pod: true}},
		{limit("", `certificate: {subject: {commonName: {patterns: ["{pod}"]}}}`), certpolicy.Needs{Pod: true}},
		{limit("", `certificate: {subject: {other: [{oid: 1.2.3, patterns: ["{pod}"]}]}}`), certpolicy.Needs{Pod: true}},
		{limit("", `certificate: {subject: {commonName: {patterns: ["{node}"]}}}`), certpolicy.Needs{Pod: true}},
		{limit("", `certificate: {names: {dns: {patterns: ["{service}.example.com"]}}}`), certpolicy.Needs{Services: true}},
		{limit("", rule("services.size() > 0")), certpolicy.Needs{Services: true}},
		{limit(`, access: [{verb: use}, {verb: get, resource: pods}]`, plain), certpolicy.Needs{Access: []certpolicy.Access{
			{Verb: "get", Resource: "pods", Namespace: "shop"}, {Verb: "use", Group: "certplane.dev", Resource: "certificatepolicies", Name: "p", Namespace: "shop"},
		}}},
		{`{effect: Limit, match: {signers: [example.org/other], origins: [Direct]}, mode: Enforce}`, certpolicy.Needs{}},
		{`{effect: Limit, match: {signers: ["*"], kinds: [PodCertificateRequest], namespaces: {selector: {}}}, mode: Enforce}`, certpolicy.Needs{}},
		{limit(`, origins: [Direct]`, `mode: "Off"`), certpolicy.Needs{}},
		{limit(`, origins: [Direct]`, `mode: Shadow`), certpolicy.Needs{Origin: true}},
	} {
		in := of(crs).input(t)
		got := set(t, map[string]string{"p": tc.spec}).Needs(&in.Request)
		slices.SortFunc(got.Access, func(a, b certpolicy.Access) int { return len(a.Verb+a.Resource) - len(b.Verb+b.Resource) })
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tc.spec, diff)
		}
	}
	x := `{policies: [p], items: [certificate.names], reason: test, notAfter: "2027-01-01T00:00:00Z", match: {signers: ["*"], namespaces: {selector: {matchLabels: {a: b}}}}}`
	in := of(crs).input(t)
	if got := setWith(t, map[string]string{"p": web}, map[string]string{"x": x}).Needs(&in.Request); !got.Namespace {
		t.Errorf("an exception needs %+v", got)
	}
}

// TestReplaces: what would change if a policy stood in another's place.
func TestReplaces(t *testing.T) {
	wider := "mode: Shadow\nreplaces: web\n" + `effect: Allow
match: {signers: ["*"]}
certificate: {names: {dns: {zones: [example.org, shop.example.com]}}, usages: {allowed: [digital signature, server auth]}}`
	narrower := "mode: Warn\nreplaces: web\n" + `effect: Allow
match: {signers: ["*"]}
certificate: {names: {dns: {zones: [www.shop.example.com]}}, usages: {allowed: [digital signature, server auth]}}`
	s := set(t, map[string]string{"web": web, "wider": wider, "narrower": narrower, "beside": "mode: Shadow\neffect: Limit\nmatch: {signers: ['*']}\n" + nothing})
	for _, tc := range []struct {
		name, want string
		outcomes   map[string]v1alpha1.DecisionOutcome
	}{
		{"www.shop.example.com", "Approve", map[string]v1alpha1.DecisionOutcome{"wider": "Approve", "narrower": "Approve", "beside": "Deny"}},
		{"api.shop.example.com", "Approve", map[string]v1alpha1.DecisionOutcome{"wider": "Approve", "narrower": "Deny", "beside": "Deny"}},
		{"www.example.org", "Deny", map[string]v1alpha1.DecisionOutcome{"wider": "Approve", "narrower": "Deny", "beside": "Deny"}},
		{"www.example.net", "Deny", map[string]v1alpha1.DecisionOutcome{"wider": "Deny", "narrower": "Deny", "beside": "Deny"}},
	} {
		d := decide(t, s, of(csrs).but(func(a *asked) { a.dns = []string{tc.name} }))
		if string(d.Outcome) != tc.want || len(d.Considered) != 1 {
			t.Errorf("%s: %s, considered %+v", tc.name, brief(d), d.Considered)
		}
		got := map[string]v1alpha1.DecisionOutcome{}
		for _, one := range d.Shadow {
			got[one.Policy] = one.Outcome
			if one.Differs != (one.Outcome != d.Outcome) || one.Differs != (one.Message != "" || one.Outcome == v1alpha1.OutcomeApprove && d.Outcome != v1alpha1.OutcomeApprove) {
				t.Errorf("%s: %+v while the decision is %s", tc.name, one, d.Outcome)
			}
		}
		if diff := cmp.Diff(tc.outcomes, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tc.name, diff)
		}
	}
}

// TestLifetime: what policies leave to the signer.
func TestLifetime(t *testing.T) {
	day := 24 * time.Hour
	allow := func(name, lifetime string) string {
		return `{effect: Allow, match: {signers: ["*"], requesters: {users: [` + name + `]}}, certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}, lifetime: ` + lifetime + `}}`
	}
	s := set(t, map[string]string{
		"alice":  allow("alice", `{default: 48h, max: 72h, exceeding: Shorten}`),
		"bob":    allow("bob", `{max: 240h, exceeding: Shorten}`),
		"limit":  `{effect: Limit, match: {signers: ["*"]}, certificate: {lifetime: {max: 120h, exceeding: Shorten}}}`,
		"other":  `{effect: Limit, match: {signers: ["*"], requesters: {users: [dora]}}, certificate: {lifetime: {max: 1h, default: 1h}}}`,
		"shadow": `{effect: Limit, mode: Shadow, match: {signers: ["*"]}, certificate: {lifetime: {max: 1h, default: 1h}}}`,
	})
	for user, want := range map[string]request.LifetimeLimits{
		"alice": {Default: new(2 * day), Max: new(3 * day)}, "bob": {Max: new(5 * day)}, "carol": {Max: new(5 * day)},
	} {
		if diff := cmp.Diff(want, s.Opinions(of(csrs).but(func(a *asked) { a.user, a.noLife = user, true }).input(t)).Lifetime()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", user, diff)
		}
	}
}

// TestPeopleOfSets: who asks for people.
func TestPeopleOfSets(t *testing.T) {
	s := set(t, map[string]string{
		"p": `{effect: Limit, match: {signers: [example.com/*], kinds: [CertificateSigningRequest]}, approval: {mode: People, people: {count: 2}}}`,
		"q": `{effect: Limit, mode: Shadow, match: {signers: [example.org/*], kinds: [CertificateSigningRequest]}, approval: {mode: People, people: {count: 3}}}`,
		"r": everything,
	})
	if !s.NeedsPeople(csrs, "example.com/a") || s.NeedsPeople(crs, "example.com/a") || s.NeedsPeople(csrs, "example.org/a") {
		t.Error("people are needed elsewhere")
	}
	var got []string
	for _, req := range s.People() {
		got = append(got, req.Policy)
	}
	if !slices.Equal(got, []string{"p", "q"}) {
		t.Errorf("people are required by %v", got)
	}
}

// TestNodeVariable: expressions see the addresses of nodes by their types.
func TestNodeVariable(t *testing.T) {
	s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, rules: [{name: r, expression: "node.metadata.name == 'n1' && node.addresses.size() == 2 && node.ips == ['10.0.0.1'] && node.hostnames == ['n1']"}]}`, "everything": everything})
	d := decide(t, s, of(csrs).but(kubelet, nodeN1(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "n1"})))
	if d.Outcome != v1alpha1.OutcomeApprove {
		t.Error(brief(d))
	}
}
