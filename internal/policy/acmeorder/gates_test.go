package acmeorder_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestCheckIdentifiers(t *testing.T) {
	rule := func(expression, message string) func(*v1alpha1.AcmeEndpoint) {
		return func(e *v1alpha1.AcmeEndpoint) {
			e.Spec.Identifiers.Rules = append(e.Spec.Identifiers.Rules, v1alpha1.AcmeRule{Expression: expression, Message: message})
		}
	}
	challenges := func(types ...string) func(*v1alpha1.AcmeEndpoint) {
		return func(e *v1alpha1.AcmeEndpoint) { e.Spec.Challenges.Types = types }
	}
	narrow := func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Identifiers = &v1alpha1.AcmeIdentifierSet{DNS: &v1alpha1.AcmeDNSNames{Allow: []string{"*.shop.corp.example", "*.elsewhere.example"}, Wildcards: "Deny"}}
	}
	preauthorized := func(wildcards bool) func(*v1alpha1.AcmeExternalKey) {
		return func(k *v1alpha1.AcmeExternalKey) {
			k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.shop.corp.example"}, Wildcards: wildcards, IP: []string{"10.1.0.0/16"}}
		}
	}
	type key = func(*v1alpha1.AcmeExternalKey)
	type change = func(*v1alpha1.AcmeEndpoint)
	for _, tc := range []struct {
		reason       string
		ids          []rfc8555.Identifier
		change       change
		key          key
		kind, detail string
	}{
		{"below", dns("a.corp.example"), nil, nil, "", ""},
		{"at any depth", dns("a.b.c.corp.example"), nil, nil, "", ""},
		{"exactly", dns("corp.example", "intranet"), nil, nil, "", ""},
		{"another zone that ends so", dns("acorp.example"), nil, nil, "rejectedIdentifier", `"acorp.example" is not allowed here`},
		{"a single label", dns("printer"), nil, nil, "rejectedIdentifier", ""},
		{"denied", dns("vault.corp.example"), nil, nil, "rejectedIdentifier", ""},
		{"denied below", dns("x.y.secret.corp.example"), nil, nil, "rejectedIdentifier", ""},
		{"below a denied name", dns("x.vault.corp.example"), nil, nil, "", ""},
		{"a wildcard", dns("*.shop.corp.example"), nil, nil, "", ""},
		{"a wildcard of another zone that ends so", dns("*.acorp.example"), nil, nil, "rejectedIdentifier", ""},
		{"a wildcard with a denied name", dns("*.corp.example"), nil, nil, "rejectedIdentifier", ""},
		{"a wildcard of denied names", dns("*.secret.corp.example"), nil, nil, "rejectedIdentifier", ""},
		{"a wildcard at an exact name", dns("*.intranet"), nil, nil, "rejectedIdentifier", ""},
		{"a wildcard, denied", dns("*.shop.corp.example"), func(e *v1alpha1.AcmeEndpoint) { e.Spec.Identifiers.DNS.Wildcards = "Deny" }, nil, "rejectedIdentifier", "is a wildcard"},
		{"a wildcard without dns-01", dns("*.shop.corp.example"), challenges("http-01"), nil, "rejectedIdentifier", "cannot be proven"},
		{"a wildcard without dns-01, preauthorized", dns("*.shop.corp.example"), challenges("http-01"), preauthorized(true), "", ""},
		{"a wildcard without dns-01, others preauthorized", dns("*.shop.corp.example"), challenges("http-01"), preauthorized(false), "rejectedIdentifier", "cannot be proven"},
		{"an address", ip("10.1.2.3", "fd00::1"), nil, nil, "", ""},
		{"an address elsewhere", ip("192.0.2.1"), nil, nil, "rejectedIdentifier", ""},
		{"a denied address", ip("10.9.9.9"), nil, nil, "rejectedIdentifier", ""},
		{"an address in IPv6 form", ip("::ffff:10.1.2.3"), nil, nil, "unsupportedIdentifier", ""},
		{"an address by dns-01 alone", ip("10.1.2.3"), challenges("dns-01"), nil, "rejectedIdentifier", "cannot be proven"},
		{"no challenges, preauthorized", ip("10.1.2.3"), challenges(), preauthorized(false), "", ""},
		{"addresses where none are allowed", ip("10.1.2.3"), func(e *v1alpha1.AcmeEndpoint) { e.Spec.Identifiers.IP = nil }, nil, "unsupportedIdentifier", `type "ip"`},
		{"another type", []rfc8555.Identifier{{Type: "email", Value: "a@corp.example"}}, nil, nil, "unsupportedIdentifier", `type "email"`},
		{"a line break", dns("a\n.corp.example"), nil, nil, "unsupportedIdentifier", ""},
		{"narrowed by the key", dns("a.shop.corp.example"), nil, narrow, "", ""},
		{"outside of the key", dns("a.corp.example"), nil, narrow, "rejectedIdentifier", "not allowed for the external account key"},
		{"a key does not widen", dns("a.elsewhere.example"), nil, narrow, "rejectedIdentifier", "is not allowed here"},
		{"a type that the key leaves out", ip("10.1.2.3"), nil, narrow, "rejectedIdentifier", "external account key"},
		{"a wildcard that the key denies", dns("*.shop.corp.example"), nil, narrow, "rejectedIdentifier", "is a wildcard"},
		{"a rule holds", ip("10.1.2.3"), rule(`identifiers.all(i, i.type != "ip" || account.externalKey == "shop/fleet")`, "addresses need an external key"), preauthorized(false), "", ""},
		{"a rule refuses", ip("10.1.2.3"), rule(`identifiers.all(i, i.type != "ip" || account.externalKey != "")`, "addresses need an external key"), nil, "rejectedIdentifier", "addresses need an external key"},
		{"a rule of the profile and the time", dns("a.corp.example"), rule(`profile == "server" && now > timestamp("2026-01-01T00:00:00Z") && account.namespace == "shop"`, "no"), nil, "", ""},
		{"a rule about wildcards", dns("*.shop.corp.example"), rule(`!identifiers.exists(i, i.wildcard && i.value == "shop.corp.example")`, "not this one"), nil, "rejectedIdentifier", "not this one"},
		{"a rule that fails", dns("a.corp.example"), rule(`identifiers[7].wildcard`, "no"), nil, "rejectedIdentifier", "failed"},
		{"an identifier and a rule", dns("printer"), rule(`false`, "nobody"), nil, "rejectedIdentifier", "; nobody"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var e *acmeorder.Endpoint
			if e = endpoint(t); tc.change != nil {
				e = endpoint(t, tc.change)
			}
			f := facts(account(), nil)
			if tc.key != nil {
				f = facts(bound(), externalKey(t, tc.key))
			}
			assertProblem(t, e.CheckIdentifiers(tc.ids, f, "server", now), tc.kind, tc.detail)
		})
	}
}

func TestSubproblems(t *testing.T) {
	e, f := endpoint(t), facts(account(), nil)
	p := e.CheckIdentifiers(dns("x.example", "a.corp.example", "y.example"), f, "server", now)
	assertProblem(t, p, "rejectedIdentifier", "2 identifiers are refused")
	if len(p.Subproblems) != 2 || p.Subproblems[1].Identifier.Value != "y.example" || p.Status != 400 {
		t.Errorf("%v", p)
	}
	p = e.CheckIdentifiers(append(dns("x.example"), rfc8555.Identifier{Type: "email", Value: "a@x"}), f, "server", now)
	assertProblem(t, p, "compound", "")
	if p = e.CheckIdentifiers(dns("x.example"), f, "server", now); len(p.Subproblems) != 0 {
		t.Errorf("subproblems of one identifier: %v", p.Subproblems)
	}
}

func TestCompile(t *testing.T) {
	_, errs := acmeorder.Compile(endpointObject(func(e *v1alpha1.AcmeEndpoint) {
		e.Spec.Identifiers.DNS.Allow = []string{"*", "a.*.example", "{namespace}.example", "corp.example."}
		e.Spec.Identifiers.IP.Deny = []string{"10.1.2.3/8", "::ffff:10.0.0.0/104", "fe80::1%eth0"}
		e.Spec.Identifiers.Rules = []v1alpha1.AcmeRule{{Expression: "request.dnsNames.size() > 0"}, {Expression: "1 + 1"}}
	}))
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	want := []string{
		"spec.identifiers.dns.allow[0]", "spec.identifiers.dns.allow[1]", "spec.identifiers.dns.allow[2]", "spec.identifiers.dns.allow[3]",
		"spec.identifiers.ip.deny[0]", "spec.identifiers.ip.deny[1]", "spec.identifiers.ip.deny[2]",
		"spec.identifiers.rules[0].expression", "spec.identifiers.rules[1].expression",
	}
	if !slices.Equal(fields, want) {
		t.Errorf("%v", errs)
	}
}

// FuzzPatterns: whatever a client asks for, nothing outside of what is allowed is
// accepted.
func FuzzPatterns(f *testing.F) {
	for _, seed := range []string{"a.corp.example", "*.corp.example", "a.corp.example\n", "a。corp.example", "acorp.example", "corp.example.", "*.*.corp.example", "A.CORP.example"} {
		f.Add(seed)
	}
	e := endpoint(f)
	who := facts(account(), nil)
	f.Fuzz(func(t *testing.T, name string) {
		if e.CheckIdentifiers(dns(name), who, "server", now) != nil {
			return
		}
		folded := strings.ToLower(name)
		inside := folded == "corp.example" || folded == "intranet" || strings.HasSuffix(folded, ".corp.example")
		for _, c := range []byte(strings.TrimPrefix(folded, "*.")) {
			inside = inside && (c == '-' || c == '.' || c == '_' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9')
		}
		if !inside || strings.HasPrefix(folded, ".") || folded == "vault.corp.example" || strings.HasSuffix(folded, ".secret.corp.example") {
			t.Errorf("%q is accepted", name)
		}
	})
}

func TestAdmitOrder(t *testing.T) {
	a := dns("a.corp.example")
	type order = acmeorder.NewOrder
	tos := func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.TermsOfService = "https://corp.example/tos/2" }
	approval := func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.Admission = v1alpha1.AcmeAdmissionApproval }
	fixed := func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles[0].Lifetime.FromOrder = new(false) }
	for _, tc := range []struct {
		reason       string
		order        order
		change       func(*v1alpha1.AcmeEndpoint)
		account      func(*v1alpha1.AcmeAccount)
		kind, detail string
	}{
		{"usual", order{Identifiers: a}, nil, nil, "", ""},
		{"deactivated", order{Identifiers: a}, nil, func(a *v1alpha1.AcmeAccount) { a.Status.State = "deactivated" }, "unauthorized", "deactivated"},
		{"waits for its approval", order{Identifiers: a}, approval, nil, "userActionRequired", "approve the account alice"},
		{"is approved", order{Identifiers: a}, approval, func(a *v1alpha1.AcmeAccount) { a.Spec.Decision = "Approved" }, "", ""},
		{"new terms", order{Identifiers: a}, tos, nil, "userActionRequired", "terms of service"},
		{"agreed", order{Identifiers: a}, tos, func(a *v1alpha1.AcmeAccount) {
			a.Status.Agreed = &v1alpha1.AcmeAgreement{URL: "https://corp.example/tos/2"}
		}, "", ""},
		{"no identifiers", order{}, nil, nil, "malformed", ""},
		{"too many", order{Identifiers: dns("a.corp.example", "b.corp.example", "c.corp.example")}, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Identifiers.MaxPerOrder = 2 }, nil, "malformed", "3 identifiers"},
		{"twice the same", order{Identifiers: dns("a.corp.example", "b.corp.example", "a.corp.example")}, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Identifiers.MaxPerOrder = 2 }, nil, "", ""},
		{"unknown profile", order{Identifiers: a, Profile: "x"}, nil, nil, "invalidProfile", ""},
		{"known profile", order{Identifiers: a, Profile: "mesh"}, nil, nil, "", ""},
		{"notAfter", order{Identifiers: a, NotAfter: now.Add(20 * time.Minute)}, nil, nil, "", ""},
		{"notAfter at once", order{Identifiers: a, NotAfter: now.Add(10 * time.Minute)}, nil, nil, "malformed", "too early"},
		{"notAfter, short, of an issuer", order{Identifiers: a, Profile: "mesh", NotAfter: now.Add(5 * time.Minute)}, nil, nil, "", ""},
		{"notAfter at the maximum", order{Identifiers: a, NotAfter: now.Add(720 * time.Hour)}, nil, nil, "", ""},
		{"notAfter beyond it", order{Identifiers: a, NotAfter: now.Add(720*time.Hour + time.Second)}, nil, nil, "malformed", "at most 30d"},
		{"notBefore", order{Identifiers: a, NotBefore: now.Add(-5 * time.Minute)}, nil, nil, "", ""},
		{"notBefore, far", order{Identifiers: a, NotBefore: now.Add(6 * time.Minute)}, nil, nil, "malformed", "notBefore"},
		{"dates that the profile refuses", order{Identifiers: a, NotAfter: now.Add(time.Hour)}, fixed, nil, "malformed", "not accepted"},
		{"a foreign name", order{Identifiers: dns("x.example")}, nil, nil, "rejectedIdentifier", ""},
		{"the profile comes first", order{Identifiers: dns("x.example"), Profile: "x"}, nil, nil, "invalidProfile", ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e := endpoint(t)
			if tc.change != nil {
				e = endpoint(t, tc.change)
			}
			who := account()
			if tc.account != nil {
				tc.account(who)
			}
			_, p := e.AdmitOrder(tc.order, acmeorder.OrderFacts{AccountFacts: facts(who, nil), Help: "https://help"}, now)
			assertProblem(t, p, tc.kind, tc.detail)
		})
	}
}

func TestProfilesOfKeys(t *testing.T) {
	e := endpoint(t)
	f := acmeorder.OrderFacts{AccountFacts: facts(bound(), externalKey(t, func(k *v1alpha1.AcmeExternalKey) { k.Spec.Profiles = []string{"mesh"} }))}
	admitted, p := e.AdmitOrder(acmeorder.NewOrder{Identifiers: dns("a.corp.example")}, f, now)
	if p != nil || admitted.Profile().Name != "mesh" {
		t.Errorf("the default is %v, %v", admitted, p)
	}
	_, p = e.AdmitOrder(acmeorder.NewOrder{Identifiers: dns("a.corp.example"), Profile: "server"}, f, now)
	assertProblem(t, p, "invalidProfile", "external account key")
}

func TestBuild(t *testing.T) {
	e := endpoint(t)
	f := acmeorder.OrderFacts{AccountFacts: facts(bound(), externalKey(t, func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.pre.corp.example"}, Wildcards: true}
	}))}
	ids := append(dns("x.corp.example", "*.x.corp.example", "a.pre.corp.example", "*.pre.corp.example"), ip("10.1.2.3")...)
	admitted, p := e.AdmitOrder(acmeorder.NewOrder{Identifiers: ids}, f, now)
	if p != nil {
		t.Fatal(p)
	}
	o := admitted.Build("order1", "seed", now)
	for i, want := range []struct {
		value, origin, state string
		wildcard             bool
		challenges           []string
	}{
		{"x.corp.example", "Challenge", "pending", false, []string{"http-01", "dns-01", "tls-alpn-01"}},
		{"x.corp.example", "Challenge", "pending", true, []string{"dns-01"}},
		{"a.pre.corp.example", "Preauthorized", "valid", false, []string{"http-01"}},
		{"pre.corp.example", "Preauthorized", "valid", true, []string{"dns-01"}},
		{"10.1.2.3", "Challenge", "pending", false, []string{"http-01", "tls-alpn-01"}},
	} {
		a := o.Status.Authorizations[i]
		var kinds []string
		for _, c := range a.Challenges {
			kinds = append(kinds, c.Type)
		}
		if a.Identifier.Value != want.value || string(a.Origin) != want.origin || a.State != want.state || a.Wildcard != want.wildcard || !slices.Equal(kinds, want.challenges) {
			t.Errorf("authorization %d: %+v", i, a)
		}
	}
	if o.Namespace != "shop" || o.Spec.Account != "alice" || o.Status.Expires.Sub(now) != 24*time.Hour || acmeorder.OrderState(o, now) != "pending" {
		t.Errorf("%+v", o)
	}
	admitted, _ = e.AdmitOrder(acmeorder.NewOrder{Identifiers: dns("a.pre.corp.example")}, f, now)
	if got := acmeorder.OrderState(admitted.Build("order2", "seed", now), now); got != "ready" {
		t.Errorf("an order of preauthorized names is %s", got)
	}
}

func TestReuseOfOrders(t *testing.T) {
	e := endpoint(t)
	pending := newOrder(t, e, dns("a.corp.example", "b.corp.example")...)
	asked := acmeorder.NewOrder{Identifiers: dns("b.corp.example", "a.corp.example")}
	for _, tc := range []struct {
		reason string
		order  *v1alpha1.AcmeOrder
		asked  acmeorder.NewOrder
		at     time.Time
		want   bool
	}{
		{"pending", pending, asked, now, true},
		{"ready", proven(t, e, pending), asked, now, true},
		{"processing", finalized(t, e, newKey(t), dns("a.corp.example", "b.corp.example")...), asked, now, false},
		{"soon over", pending, asked, now.Add(23*time.Hour + time.Second), false},
		{"more names", pending, acmeorder.NewOrder{Identifiers: dns("a.corp.example", "b.corp.example", "c.corp.example")}, now, false},
		{"fewer names", pending, acmeorder.NewOrder{Identifiers: dns("a.corp.example")}, now, false},
		{"another profile", pending, acmeorder.NewOrder{Identifiers: asked.Identifiers, Profile: "mesh"}, now, false},
		{"other dates", pending, acmeorder.NewOrder{Identifiers: asked.Identifiers, NotAfter: now.Add(time.Hour)}, now, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := acmeorder.OrderFacts{AccountFacts: facts(account(), nil), Orders: []*v1alpha1.AcmeOrder{tc.order}}
			admitted, p := e.AdmitOrder(tc.asked, f, tc.at)
			if p != nil {
				t.Fatal(p)
			}
			if got := admitted.Reuse != nil; got != tc.want {
				t.Errorf("reused: %v", got)
			}
		})
	}
}

func TestReuseOfValidations(t *testing.T) {
	for _, tc := range []struct {
		reason string
		period metav1.Duration
		at     time.Time
		change func(*v1alpha1.AcmeOrder)
		want   v1alpha1.AcmeOrigin
	}{
		{"off", hour(0), now, nil, "Challenge"},
		{"within the period", hour(2), now.Add(2 * time.Hour), nil, "Reused"},
		{"after it", hour(2), now.Add(2*time.Hour + time.Second), nil, "Challenge"},
		{"expired", hour(100), now.Add(24 * time.Hour), nil, "Challenge"},
		{"deactivated", hour(2), now, func(o *v1alpha1.AcmeOrder) { o.Status.Authorizations[0].State = "deactivated" }, "Challenge"},
		{"itself reused", hour(2), now, func(o *v1alpha1.AcmeOrder) { o.Status.Authorizations[0].Origin = "Reused" }, "Challenge"},
		{"of another account", hour(2), now, func(o *v1alpha1.AcmeOrder) { o.Spec.Account = "bob" }, "Challenge"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e := endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Orders.ReuseValidation = tc.period })
			earlier, _, _ := valid(t, e, dns("a.corp.example")...)
			if tc.change != nil {
				tc.change(earlier)
			}
			f := acmeorder.OrderFacts{AccountFacts: facts(account(), nil), Orders: []*v1alpha1.AcmeOrder{earlier}}
			admitted, p := e.AdmitOrder(acmeorder.NewOrder{Identifiers: dns("a.corp.example")}, f, tc.at)
			if p != nil {
				t.Fatal(p)
			}
			o := admitted.Build("order2", "seed", tc.at)
			a := o.Status.Authorizations[0]
			if a.Origin != tc.want {
				t.Errorf("origin %s, want %s", a.Origin, tc.want)
			}
			if a.Origin == "Reused" && (!a.Expires.Equal(earlier.Status.Authorizations[0].Expires) || acmeorder.Token(o, acmeorder.Position{}) == "") {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestCheckAgain(t *testing.T) {
	pre := func(names ...string) *acmeorder.ExternalKey {
		return externalKey(t, func(k *v1alpha1.AcmeExternalKey) { k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: names} })
	}
	e := endpoint(t)
	admitted, p := e.AdmitOrder(acmeorder.NewOrder{Identifiers: dns("a.corp.example")}, acmeorder.OrderFacts{AccountFacts: facts(bound(), pre("a.corp.example"))}, now)
	if p != nil {
		t.Fatal(p)
	}
	o := admitted.Build("order1", "seed", now)
	assertProblem(t, e.CheckAgain(o, facts(bound(), pre("a.corp.example")), now), "", "")
	assertProblem(t, e.CheckAgain(o, facts(bound(), pre("b.corp.example")), now), "unauthorized", "not proof of control")
	assertProblem(t, e.CheckAgain(o, facts(bound(), nil), now), "unauthorized", "not proof of control")
	revoked := externalKey(t, func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Revoked, k.Spec.Preauthorized = true, &v1alpha1.AcmePreauthorized{DNS: []string{"a.corp.example"}}
	})
	assertProblem(t, e.CheckAgain(o, facts(bound(), revoked), now), "unauthorized", "not proof of control")
	narrowed := endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Identifiers.DNS.Allow = []string{"b.corp.example"} })
	assertProblem(t, narrowed.CheckAgain(o, facts(bound(), pre("a.corp.example")), now), "rejectedIdentifier", "")
	withdrawn := endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles = e.Spec.Profiles[1:] })
	assertProblem(t, withdrawn.CheckAgain(o, facts(bound(), pre("a.corp.example")), now), "invalidProfile", "")
	withoutChallenges := endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Challenges.Types = nil })
	assertProblem(t, withoutChallenges.CheckAgain(newOrder(t, e, dns("a.corp.example")...), facts(account(), nil), now), "", "")
}

func TestOrderLimits(t *testing.T) {
	e := endpoint(t, func(e *v1alpha1.AcmeEndpoint) {
		e.Spec.Limits.OrdersPerAccountPerHour, e.Spec.Limits.PendingOrdersPerAccount, e.Spec.Limits.WaitingOrdersPerAccount = 4, 3, 2
	})
	copies := func(o *v1alpha1.AcmeOrder, n int) []*v1alpha1.AcmeOrder {
		var list []*v1alpha1.AcmeOrder
		for i := range n {
			o := o.DeepCopy()
			o.CreationTimestamp = metav1.Time{Time: now.Add(-time.Duration(10*i) * time.Minute)}
			list = append(list, o)
		}
		return list
	}
	pending, waiting := newOrder(t, e, dns("a.corp.example")...), finalized(t, e, newKey(t), dns("a.corp.example")...)
	done, _, _ := valid(t, e, dns("a.corp.example")...)
	for _, tc := range []struct {
		reason   string
		orders   []*v1alpha1.AcmeOrder
		replaces bool
		detail   string
		retry    time.Duration
	}{
		{"some pending", copies(pending, 2), false, "", 0},
		{"too many pending", copies(pending, 3), false, "pendingOrdersPerAccount", 24*time.Hour + time.Minute},
		{"too many wait", copies(waiting, 2), false, "waitingOrdersPerAccount", time.Minute},
		{"too many in an hour", copies(done, 4), false, "ordersPerAccountPerHour", 30 * time.Minute},
		{"too many, but it replaces", copies(done, 4), true, "", 0},
		{"some of them more than an hour ago", copies(done, 20)[3:], false, "", 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			p := acmeorder.CheckOrderLimits(e.Spec(), tc.orders, tc.replaces, now)
			if tc.detail == "" {
				assertProblem(t, p, "", "")
				return
			}
			assertProblem(t, p, "rateLimited", tc.detail)
			if p != nil && p.RetryAfter.Sub(now) != tc.retry {
				t.Errorf("retry after %v, want %v", p.RetryAfter.Sub(now), tc.retry)
			}
		})
	}
	failed := newOrder(t, e, dns("a.corp.example")...)
	failed.Status.Authorizations[0].State, failed.Status.Ended = "invalid", moment(now.Add(-10*time.Minute))
	p := acmeorder.CheckFailedValidations(endpoint(t).Spec(), copies(failed, 20), dns("b.corp.example", "a.corp.example"), now)
	assertProblem(t, p, "rateLimited", "failedValidationsPerHour")
	if p != nil && p.RetryAfter.Sub(now) != 50*time.Minute {
		t.Errorf("retry after %v", p.RetryAfter.Sub(now))
	}
	assertProblem(t, acmeorder.CheckFailedValidations(endpoint(t).Spec(), copies(failed, 20), dns("b.corp.example"), now), "", "")
	assertProblem(t, acmeorder.CheckAccountLimit(e.Spec(), 100000, now), "rateLimited", "maxAccounts")
}
