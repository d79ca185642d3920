package order_test

import (
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gwapi "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/policy/order"
)

// solver returns a solver from a text: its type, then its selector: l:key=value
// for a label, n:name, z:zone; {} for a selector without content.
func solver(text string) acmev1.ACMEChallengeSolver {
	parts := strings.Fields(text)
	s := solverOf(parts[0])
	for _, part := range parts[1:] {
		if s.Selector == nil {
			s.Selector = &acmev1.CertificateDNSNameSelector{}
		}
		kind, value, _ := strings.Cut(part, ":")
		switch kind {
		case "l":
			key, value, _ := strings.Cut(value, "=")
			if s.Selector.MatchLabels == nil {
				s.Selector.MatchLabels = map[string]string{}
			}
			s.Selector.MatchLabels[key] = value
		case "n":
			s.Selector.DNSNames = append(s.Selector.DNSNames, value)
		case "z":
			s.Selector.DNSZones = append(s.Selector.DNSZones, value)
		}
	}
	return s
}

func solverOf(kind string) acmev1.ACMEChallengeSolver {
	switch kind {
	case "http":
		return acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}}
	case "dns":
		return acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{Cloudflare: &acmev1.ACMEIssuerDNS01ProviderCloudflare{}}}
	case "webhook":
		return webhook("example.com", "tls-alpn-01")
	case "none":
		return acmev1.ACMEChallengeSolver{}
	}
	return webhook("acme.certplane.dev", kind)
}

func webhook(group, name string) acmev1.ACMEChallengeSolver {
	return acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: group, SolverName: name}}}
}

func offers(kinds ...string) []acmev1.ACMEChallenge {
	var all []acmev1.ACMEChallenge
	for _, kind := range kinds {
		all = append(all, acmev1.ACMEChallenge{Type: kind, URL: "https://ca.example/" + kind, Token: "token"})
	}
	return all
}

func TestChoose(t *testing.T) {
	usual := offers("http-01", "dns-01", "tls-alpn-01")
	labels := map[string]string{"team": "web", "stage": "prod"}
	tests := []struct {
		reason  string
		domain  string
		offered []acmev1.ACMEChallenge
		want    int
		solvers []string
	}{
		{"nothing configured", "a.example.com", usual, -1, nil},
		{"one without a selector", "a.example.com", usual, 0, []string{"http"}},
		{"of no type", "a.example.com", usual, -1, []string{"none"}},
		{"the first of two without selectors", "a.example.com", usual, 0, []string{"http", "dns"}},
		{"a type that is not offered", "*.example.com", offers("dns-01"), 1, []string{"http", "dns"}},
		{"no type that is offered", "*.example.com", offers("dns-01"), -1, []string{"http"}},
		{"nothing offered", "a.example.com", nil, -1, []string{"http", "dns"}},
		{"an empty selector is as good as none: first", "a.example.com", usual, 0, []string{"http {}", "dns"}},
		{"an empty selector is as good as none: second", "a.example.com", usual, 0, []string{"http", "dns {}"}},
		{"a name beats none", "a.example.com", usual, 1, []string{"http", "dns n:a.example.com"}},
		{"a name beats none, whatever the order", "a.example.com", usual, 0, []string{"dns n:a.example.com", "http"}},
		{"a name that differs", "b.example.com", usual, 0, []string{"http", "dns n:a.example.com"}},
		{"one of several names", "b.example.com", usual, 1, []string{"http", "dns n:a.example.com n:b.example.com"}},
		{"names are exact: case", "A.example.com", usual, 0, []string{"http", "dns n:a.example.com"}},
		{"names are exact: no subdomains", "x.a.example.com", usual, 0, []string{"http", "dns n:a.example.com"}},
		{"a name is not that of its wildcard", "*.example.com", usual, 0, []string{"http", "dns n:example.com"}},
		{"the name of a wildcard", "*.example.com", usual, 1, []string{"http", "dns n:*.example.com"}},
		{"a zone beats none", "a.example.com", usual, 1, []string{"http", "dns z:example.com"}},
		{"the zone itself", "example.com", usual, 1, []string{"http", "dns z:example.com"}},
		{"a zone ends at a label", "aexample.com", usual, 0, []string{"http", "dns z:example.com"}},
		{"a zone in another case", "a.EXAMPLE.com", usual, 1, []string{"http", "dns z:Example.com"}},
		{"a zone has its wildcard", "*.example.com", usual, 1, []string{"http", "dns z:example.com"}},
		{"the zone of a wildcard has no names", "a.example.com", usual, 0, []string{"http", "dns z:*.example.com"}},
		{"a longer zone beats a shorter one", "a.b.example.com", usual, 1, []string{"http z:example.com", "dns z:b.example.com"}},
		{"a longer zone beats a shorter one, whatever the order", "a.b.example.com", usual, 0, []string{"http z:b.example.com", "dns z:example.com"}},
		{"the longest zone of each counts", "a.b.example.com", usual, 1, []string{"http z:example.com", "dns z:com z:b.example.com"}},
		{"equal zones: the first", "a.example.com", usual, 0, []string{"http z:example.com", "dns z:example.com"}},
		{"equal zones: more labels", "a.example.com", usual, 1, []string{"http z:example.com", "dns z:example.com l:team=web"}},
		{"a zone beats labels", "a.example.com", usual, 1, []string{"http l:team=web l:stage=prod", "dns z:example.com"}},
		{"a name beats a zone", "a.b.example.com", usual, 1, []string{"http z:a.b.example.com", "dns n:a.b.example.com"}},
		{"a name beats labels", "a.example.com", usual, 1, []string{"http l:team=web l:stage=prod", "dns n:a.example.com"}},
		{"both names: more zones", "a.example.com", usual, 1, []string{"http n:a.example.com", "dns n:a.example.com z:com"}},
		{"both names and zones: more labels", "a.example.com", usual, 1, []string{"http n:a.example.com z:com", "dns n:a.example.com z:com l:team=web"}},
		{"both names: zones before labels", "a.example.com", usual, 0, []string{"http n:a.example.com z:com", "dns n:a.example.com l:team=web l:stage=prod"}},
		{"both names: the first", "a.example.com", usual, 0, []string{"http n:a.example.com", "dns n:a.example.com"}},
		{"names and zones must both match", "a.example.com", usual, 0, []string{"http", "dns n:a.example.com z:example.org"}},
		{"labels beat none", "a.example.com", usual, 1, []string{"http", "dns l:team=web"}},
		{"more labels", "a.example.com", usual, 1, []string{"http l:team=web", "dns l:team=web l:stage=prod"}},
		{"equal labels: the first", "a.example.com", usual, 0, []string{"http l:team=web", "dns l:stage=prod"}},
		{"a label with another value", "a.example.com", usual, 0, []string{"http", "dns l:team=db"}},
		{"a label that is missing", "a.example.com", usual, 0, []string{"http", "dns l:team=web l:none=x"}},
		{"the last of three", "a.b.example.com", usual, 2, []string{"http z:example.com", "dns z:b.example.com", "http n:a.b.example.com"}},
		{"the best is not offered", "a.example.com", offers("http-01"), 0, []string{"http", "dns n:a.example.com"}},
		{"an address", "192.0.2.1", offers("http-01", "tls-alpn-01"), 1, []string{"dns", "http"}},
		{"a reserved name is of its own type", "a.example.com", usual, 0, []string{"tls-alpn-01", "http"}},
		{"a reserved name whose type is not offered", "a.example.com", usual, 1, []string{"dns-account-01", "http"}},
		{"dns-persist-01", "a.example.com", offers("dns-persist-01"), 1, []string{"dns", "dns-persist-01"}},
		{"a reserved name that is unknown", "a.example.com", usual, 1, []string{"dns-99", "http"}},
		{"a webhook of others is for dns-01", "a.example.com", offers("tls-alpn-01"), -1, []string{"webhook"}},
	}
	for _, tc := range tests {
		var solvers []acmev1.ACMEChallengeSolver
		for _, text := range tc.solvers {
			solvers = append(solvers, solver(text))
		}
		got := order.Choose(solvers, tc.domain, labels, tc.offered)
		if got.Index != tc.want {
			t.Errorf("%s: %d, not %d: %v", tc.reason, got.Index, tc.want, got.Candidates)
			continue
		}
		for i, candidate := range got.Candidates {
			if (candidate.Lost == order.Chosen) != (i == tc.want) {
				t.Errorf("%s: %v", tc.reason, candidate)
			}
		}
		if tc.want >= 0 && got.Challenge.Type != order.SolverType(&solvers[tc.want]) {
			t.Errorf("%s: solves %+v", tc.reason, got.Challenge)
		}
	}
}

// A choice says why the other solvers were not chosen.
func TestCandidates(t *testing.T) {
	var solvers []acmev1.ACMEChallengeSolver
	for _, text := range []string{"none", "tls-alpn-01", "http", "http l:team=db", "http n:b.example.com", "http z:example.org", "http z:example.com", "dns n:a.example.com", "http n:a.example.com"} {
		solvers = append(solvers, solver(text))
	}
	var got []string
	for _, c := range order.Choose(solvers, "a.example.com", nil, offers("http-01", "dns-01")).Candidates {
		got = append(got, c.String())
	}
	want := []string{
		"spec.acme.solvers[0] (of an unknown type): there is no such solver",
		"spec.acme.solvers[1] (tls-alpn-01): the CA does not offer this type of challenge for the name",
		"spec.acme.solvers[2] (http-01): the selector of spec.acme.solvers[7] is more specific",
		"spec.acme.solvers[3] (http-01): the Order does not have all labels of selector.matchLabels",
		"spec.acme.solvers[4] (http-01): the name is not in selector.dnsNames",
		"spec.acme.solvers[5] (http-01): the name is in none of selector.dnsZones",
		"spec.acme.solvers[6] (http-01): the selector of spec.acme.solvers[7] is more specific",
		"spec.acme.solvers[7] (dns-01) is used",
		"spec.acme.solvers[8] (http-01): spec.acme.solvers[7] comes earlier and its selector is as specific",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOverride(t *testing.T) {
	const prefix = "acme.cert-manager.io/http01-"
	ingress := func(name string, class, className *string) acmev1.ACMEChallengeSolver {
		return acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{
			Name: name, Class: class, IngressClassName: className, ServiceType: "ClusterIP",
		}}}
	}
	gateway := func(refs ...gwapi.ParentReference) acmev1.ACMEChallengeSolver {
		return acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{GatewayHTTPRoute: &acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{ParentRefs: refs}}}
	}
	parent := func(namespace, kind, name string) gwapi.ParentReference {
		ref := gwapi.ParentReference{Name: gwapi.ObjectName(name)}
		if kind != "" {
			ref.Kind = ptr.To(gwapi.Kind(kind))
		}
		if namespace != "" {
			ref.Namespace = ptr.To(gwapi.Namespace(namespace))
		}
		return ref
	}
	tests := []struct {
		reason      string
		annotations map[string]string
		before      acmev1.ACMEChallengeSolver
		want        acmev1.ACMEChallengeSolver
		fails       string
	}{
		{"nothing", nil, ingress("", nil, new("nginx")), ingress("", nil, new("nginx")), ""},
		{"annotations of others", map[string]string{"x": "y"}, ingress("a", nil, nil), ingress("a", nil, nil), ""},
		{"a name", map[string]string{prefix + "override-ingress-name": "web"}, ingress("", nil, new("nginx")), ingress("web", nil, nil), ""},
		{"a class", map[string]string{prefix + "override-ingress-class": "x"}, ingress("a", nil, nil), ingress("", new("x"), nil), ""},
		{"a class name", map[string]string{prefix + "override-ingress-ingressclassname": "x"}, ingress("", new("a"), nil), ingress("", nil, new("x")), ""},
		{"an empty value clears too", map[string]string{prefix + "override-ingress-name": ""}, ingress("a", new("b"), new("c")), ingress("", nil, nil), ""},
		{"two at once", map[string]string{prefix + "override-ingress-name": "a", prefix + "override-ingress-class": "b"}, ingress("", nil, nil), acmev1.ACMEChallengeSolver{},
			"may not specify more than one of: name, class, ingressClassName override annotations"},
		{"DNS-01 has none of it", map[string]string{prefix + "override-ingress-name": "a", prefix + "override-ingress-class": "b"}, solverOf("dns"), solverOf("dns"), ""},
		{"a parent", map[string]string{prefix + "parentrefname": "gw", prefix + "parentrefkind": "Gateway"}, gateway(), gateway(parent("shop", "Gateway", "gw")), ""},
		{"a parent elsewhere", map[string]string{prefix + "parentrefname": "gw", prefix + "parentrefkind": "Gateway", prefix + "parentrefnamespace": "infra"},
			gateway(parent("a", "", "b")), gateway(parent("a", "", "b"), parent("infra", "Gateway", "gw")), ""},
		{"a parent that is there already", map[string]string{prefix + "parentrefname": "gw", prefix + "parentrefkind": "Gateway"},
			gateway(parent("shop", "Gateway", "gw"), parent("shop", "", "gw"), parent("", "", "gw"), parent("shop", "ListenerSet", "gw"), parent("x", "", "gw")),
			gateway(parent("shop", "ListenerSet", "gw"), parent("x", "", "gw"), parent("shop", "Gateway", "gw")), ""},
		{"a name alone", map[string]string{prefix + "parentrefname": "gw"}, gateway(), acmev1.ACMEChallengeSolver{}, "cannot specify only one of parentRefName, parentRefKind override annotations"},
		{"a kind alone", map[string]string{prefix + "parentrefkind": "Gateway"}, gateway(), acmev1.ACMEChallengeSolver{}, "cannot specify only one of parentRefName, parentRefKind override annotations"},
		{"no parent at all", map[string]string{"x": "y"}, gateway(), acmev1.ACMEChallengeSolver{}, "must specify parentRefs either through annotations or solver config"},
		{"no parent and no annotations", nil, gateway(), gateway(), ""},
		{"the issuer's parent", map[string]string{"x": "y"}, gateway(parent("a", "", "b")), gateway(parent("a", "", "b")), ""},
	}
	for _, tc := range tests {
		before := *tc.before.DeepCopy()
		o := &acmev1.Order{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: tc.annotations}}
		needs, err := order.Require(o, &acmev1.ACMEIssuer{Solvers: []acmev1.ACMEChallengeSolver{tc.before}}, acmev1.ACMEAuthorization{
			Identifier: "a.example.com", Challenges: offers("http-01", "dns-01"),
		})
		if tc.fails != "" || err != nil {
			if err == nil || err.Error() != tc.fails {
				t.Errorf("%s: %v, not %s", tc.reason, err, tc.fails)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, needs.Challenge.Spec.Solver); diff != "" {
			t.Errorf("%s: %s", tc.reason, diff)
		}
		if diff := cmp.Diff(before, tc.before); diff != "" {
			t.Errorf("%s: the issuer was changed: %s", tc.reason, diff)
		}
	}
}

// The Challenge of the authorization has the name that cert-manager gives it.
func TestRequire(t *testing.T) {
	o := &acmev1.Order{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1-2029063428", UID: "uid"}, Spec: acmev1.OrderSpec{IssuerRef: le}}
	issuer := &acmev1.ACMEIssuer{Solvers: []acmev1.ACMEChallengeSolver{solver("http n:a.example.com"), solver("dns")}}
	offered := []acmev1.ACMEChallenge{{Type: "dns-01"}, {Type: "http-01", URL: "https://ca.example/chall/1", Token: "tok"}}
	got, err := order.Require(o, issuer, acmev1.ACMEAuthorization{URL: "https://ca.example/authz/1", Identifier: "a.example.com", Challenges: offered})
	if err != nil {
		t.Fatal(err)
	}
	want := acmev1.ChallengeSpec{
		URL: "https://ca.example/chall/1", AuthorizationURL: "https://ca.example/authz/1", DNSName: "a.example.com", Type: "HTTP-01", Token: "tok",
		Solver: solver("http n:a.example.com"), IssuerRef: le,
	}
	if diff := cmp.Diff(want, got.Challenge.Spec); diff != "" || got.Domain != "a.example.com" {
		t.Errorf("%s: %s", got.Domain, diff)
	}
	got, err = order.Require(o, issuer, acmev1.ACMEAuthorization{Identifier: "a.example.com", Wildcard: new(true), Challenges: offers("dns-01")})
	if err != nil || got.Domain != "*.a.example.com" || got.Challenge.Spec.DNSName != "a.example.com" || !got.Challenge.Spec.Wildcard || got.Challenge.Spec.Type != "DNS-01" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, want := range map[string]acmev1.ACMEChallengeType{"tls-alpn-01": "TLS-ALPN-01", "dns-account-01": "DNS-ACCOUNT-01", "dns-persist-01": "DNS-PERSIST-01"} {
		issuer := &acmev1.ACMEIssuer{Solvers: []acmev1.ACMEChallengeSolver{solver(name)}}
		got, err := order.Require(o, issuer, acmev1.ACMEAuthorization{Identifier: "a.example.com", Challenges: offers(name)})
		if err != nil || got.Challenge.Spec.Type != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	_, err = order.Require(o, &acmev1.ACMEIssuer{}, acmev1.ACMEAuthorization{Identifier: "a.example.com"})
	if err == nil || err.Error() != "no configured challenge solvers can be used for this challenge" {
		t.Error(err)
	}
}

// What is shown to the CA is that of RFC 8555 sections 8.3 and 8.4.
func TestKey(t *testing.T) {
	authorization := func(token string) string { return token + ".thumbprint" }
	const digest = "yKCudOCZgG8qQwi5ThOINd5az0OzxPY3veFsqLGDCA0"
	for kind, want := range map[acmev1.ACMEChallengeType]string{
		"HTTP-01": "tok.thumbprint", "TLS-ALPN-01": "tok.thumbprint", "DNS-01": digest, "DNS-ACCOUNT-01": digest, "DNS-PERSIST-01": "",
	} {
		if got := order.Key(acmev1.ChallengeSpec{Type: kind, Token: "tok"}, authorization); got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
}
