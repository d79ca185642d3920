package certpolicy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// TestForeignName: an ordinary request of each kind is approved, and one with a
// foreign name is refused in the same words.
func TestForeignName(t *testing.T) {
	s := set(t, map[string]string{"web": web})
	message := ""
	for _, kind := range []v1alpha1.RequestKind{csrs, pcrs, crs} {
		d := decide(t, s, of(kind))
		if d.Outcome != v1alpha1.OutcomeApprove || d.Policy == nil || d.Policy.Name != "web" || d.Policy.Generation != 3 || !strings.HasPrefix(d.Policy.Digest, "sha256:") {
			t.Errorf("%s: %s", kind, encode(t, d))
		}
		foreign := decide(t, s, of(kind).but(func(a *asked) { a.dns = append(a.dns, "www.example.org") }))
		if got, want := brief(foreign), `Deny; web certificate.names.dns NameNotPermitted dnsNames[1]=www.example.org`; got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
		if message == "" {
			message = foreign.Message
		}
		if foreign.Message != message || !slices.Equal(foreign.Violations[0].WouldPass, []string{"a name in shop.example.com"}) {
			t.Errorf("%s: %s", kind, encode(t, foreign))
		}
	}
}

// TestDNSNames: how DNS names match.
func TestDNSNames(t *testing.T) {
	const zone, stars, wild = `zones: [shop.example.com]`, `patterns: ["*.shop.example.com"]`, `zones: [shop.example.com], wildcards: true`
	for _, tc := range []struct {
		dns, name string
		want      string // empty: permitted; else the address below certificate.names.dns
	}{
		{zone, "shop.example.com", ""},
		{zone, "www.shop.example.com", ""},
		{zone, "a.b.shop.example.com", ""},
		{zone, "SHOP.example.COM", ""},
		{zone, "badshop.example.com", "dns"},
		{zone, "shop.example.com.", "dns"},
		{zone, "shop.example.com.example.org", "dns"},
		{zone, ".shop.example.com", "dns"},
		{zone, "a..shop.example.com", "dns"},
		{zone, "-a.shop.example.com", "dns"},
		{zone, "a_b.shop.example.com", ""},
		{zone, "a b.shop.example.com", "dns"},
		{zone, strings.Repeat("a", 63) + ".shop.example.com", ""},
		{zone, strings.Repeat("a", 64) + ".shop.example.com", "dns"},
		{zone, strings.Repeat(strings.Repeat("a", 60)+".", 4) + "shop.example.com", "dns"},
		{zone, "example.com", "dns"},
		{zone, "com", "dns"},
		{zone, "10.0.0.1", "dns"},
		{"", "10.0.0.1", "dns"},
		{"", "2001:db8::1", "dns"},
		{"", "localhost", ""},
		{zone, "*.shop.example.com", "dns.wildcards"},
		{wild, "*.shop.example.com", ""},
		{wild, "*.a.shop.example.com", ""},
		{wild, "*.example.com", "dns"},
		{wild, "*.badshop.example.com", "dns"},
		{wild, "a.*.shop.example.com", "dns"},
		{wild, "*a.shop.example.com", "dns"},
		{wild, "**.shop.example.com", "dns"},
		{wild, "*.*.shop.example.com", "dns"},
		{wild, "*.", "dns"},
		{wild, "*", "dns"},
		{stars, "www.shop.example.com", ""},
		{stars, "a.b.shop.example.com", "dns"},
		{stars, "shop.example.com", "dns"},
		{stars, "*.shop.example.com", "dns.wildcards"},
		{stars + `, wildcards: true`, "*.shop.example.com", "dns"},
		{stars + `, wildcards: true`, "*.a.shop.example.com", ""},
		{`patterns: ["www-*.example.com"]`, "www-1.example.com", ""},
		{`patterns: ["www-*.example.com"]`, "www-.example.com", "dns"}, // no label ends with a hyphen
		{`patterns: ["www-*.example.com"]`, "www-1.a.example.com", "dns"},
		{`patterns: ["**.example.com"]`, "a.b.example.com", ""},
		{`patterns: ["**.example.com"]`, "example.com", "dns"},
		{`zones: [bücher.example]`, "xn--bcher-kva.example", ""},
		{`zones: [bücher.example]`, "www.xn--bcher-kva.example", ""},
		{`zones: [bücher.example]`, "bucher.example", "dns"},
		{`zones: [Shop.Example.COM]`, "www.shop.example.com", ""},
		{`matches: ['[a-z]+\.example\.com']`, "WWW.example.com", ""},
		{`matches: ['a|b']`, "ab", "dns"},
		{`matches: ['a|b']`, "xb", "dns"},
		{`zones: [example.com], excluded: {zones: [pay.example.com]}`, "pay.example.com", "dns.excluded"},
		{`zones: [example.com], excluded: {zones: [pay.example.com]}`, "a.PAY.example.com", "dns.excluded"},
		{`zones: [example.com], excluded: {zones: [pay.example.com]}`, "repay.example.com", ""},
		{`zones: [example.com], excluded: {zones: [pay.example.com]}, wildcards: true`, "*.example.com", "dns.excluded"},
		{`zones: [example.com], excluded: {zones: [pay.example.com]}, wildcards: true`, "*.pay.example.com", "dns.excluded"},
		{`zones: [example.com], excluded: {zones: [pay.example.com]}, wildcards: true`, "*.shop.example.com", ""},
		{`expression: "['www.example.com']"`, "WWW.EXAMPLE.com", ""},
		{`zones: [example.com], expression: "['www.example.org']"`, "www.example.org", "dns"},
		{`zones: [example.com], expression: "['www.example.org']"`, "www.example.com", "dns.expression"},
	} {
		spec := `{effect: Limit, match: {signers: ["*"]}, certificate: {names: {dns: {` + tc.dns + `}}}}`
		d := decide(t, set(t, map[string]string{"p": spec, "everything": everything}), of(csrs).but(func(a *asked) { a.dns = []string{tc.name} }))
		got := ""
		for _, v := range d.Violations {
			if v.Policy == "p" {
				got = strings.TrimPrefix(v.At, "certificate.names.")
			}
		}
		if got != tc.want {
			t.Errorf("%s %q: %q, want %q: %s", tc.dns, tc.name, got, tc.want, d.Message)
		}
	}
}

// TestOtherNames: how names of the other kinds match, as far as their kinds
// differ.
func TestOtherNames(t *testing.T) {
	ip := func(list ...string) func(*asked) { return func(a *asked) { a.ips = list } }
	uri := func(list ...string) func(*asked) { return func(a *asked) { a.uris = list } }
	mail := func(list ...string) func(*asked) { return func(a *asked) { a.mail = list } }
	for _, tc := range []struct {
		names string
		ask   func(*asked)
		ok    bool
	}{
		{`ip: {cidrs: [10.0.0.0/8]}`, ip("10.255.255.255"), true},
		{`ip: {cidrs: [10.0.0.0/8]}`, ip("11.0.0.0"), false},
		{`ip: {cidrs: [10.0.0.0/8]}`, ip("::ffff:10.0.0.1"), true},
		{`ip: {cidrs: ["2001:db8::/32"]}`, ip("2001:db8::1"), true},
		{`ip: {cidrs: ["::/0"]}`, ip("10.0.0.1"), false},
		{`ip: {cidrs: [0.0.0.0/0]}`, ip("2001:db8::1"), false},
		{`ip: {expression: "['2001:DB8:0::1']"}`, ip("2001:db8::1"), true},
		{`ip: {cidrs: [10.0.0.0/8], excluded: {cidrs: [10.1.0.0/16]}}`, ip("10.1.2.3"), false},
		{`ip: {excluded: {cidrs: [169.254.169.254/32]}}`, ip("169.254.169.254"), false},
		{`uri: {patterns: ["spiffe://example.org/ns/*/sa/*"]}`, uri("spiffe://example.org/ns/a/sa/b"), true},
		{`uri: {patterns: ["spiffe://example.org/ns/*/sa/*"]}`, uri("spiffe://example.org/ns/a/x/sa/b"), false},
		{`uri: {patterns: ["spiffe://example.org/ns/*/sa/*"]}`, uri("spiffe://example.org/ns//sa/b"), false},
		{`uri: {patterns: ["spiffe://example.org/**"]}`, uri("spiffe://example.org/a/b/c"), true},
		{`uri: {patterns: ["spiffe://example.org/**"]}`, uri("spiffe://example.org.evil/a"), false},
		{`uri: {patterns: ["spiffe://example.org/**"]}`, uri("spiffe://example.org"), false},
		{`uri: {patterns: ["spiffe://example.org/**"]}`, uri("spiffe://example.org/a/../b"), false},
		{`uri: {patterns: ["spiffe://example.org/**"]}`, uri("spiffe://user@example.org/a"), false},
		{`uri: {}`, uri("spiffe://Example.org/a"), false},
		{`uri: {}`, uri("https://example.org/%61"), false},
		{`uri: {}`, uri("https://example.org/a?b"), true},
		{`email: {domains: [example.com]}`, mail("ann@EXAMPLE.com"), true},
		{`email: {domains: [example.com]}`, mail("ann@mail.example.com"), false},
		{`email: {domains: [example.com]}`, mail("ann@example.org@example.com"), false},
		{`email: {patterns: ["ann@*.example.com"]}`, mail("Ann@a.example.com"), false},
		{`email: {patterns: ["ann@*.example.com"]}`, mail("ann@a.example.com"), true},
		{`email: {expression: "['Ann@example.com']"}`, mail("Ann@EXAMPLE.com"), true},
		{`email: {expression: "['Ann@example.com']"}`, mail("ann@example.com"), false},
		{`email: {}`, mail("ann"), false},
		{`other: [{oid: 1.3.6.1.4.1.311.20.2.3, patterns: ["*@corp"]}]`, func(a *asked) { a.others = []pki.OtherName{{Type: oidUPN, Value: "ann@corp"}} }, true},
		{`other: [{oid: 1.3.6.1.4.1.311.20.2.3, patterns: ["*@corp"]}]`, func(a *asked) { a.others = []pki.OtherName{{Type: oidUPN, Value: "ann@other"}} }, false},
		{`other: [{oid: 1.3.6.1.4.1.311.20.2.3, patterns: ["*@corp"]}]`, func(a *asked) { a.others = []pki.OtherName{{Type: oidStrange, Value: "ann@corp"}} }, false},
	} {
		spec := `{effect: Allow, match: {signers: ["*"]}, certificate: {names: {dns: {}, ` + tc.names + `}, usages: {allowed: [any, digital signature]}}}`
		if d := decide(t, set(t, map[string]string{"p": spec}), of(csrs).but(tc.ask)); (d.Outcome == v1alpha1.OutcomeApprove) != tc.ok {
			t.Errorf("%s: %s", tc.names, brief(d))
		}
	}
}

// TestTemplates: a value never is a pattern, and never makes one wider.
func TestTemplates(t *testing.T) {
	label := func(value string) func(*asked) {
		return func(a *asked) { a.namespaceLabels = map[string]string{"l": value} }
	}
	for _, tc := range []struct {
		reason, names string
		kind          v1alpha1.RequestKind
		ask           func(*asked)
		ok            bool
	}{
		{"a namespace", `dns: {patterns: ["www.{namespace}.example.com"]}`, crs, nil, true},
		{"another namespace", `dns: {patterns: ["www.{namespace}.example.com"]}`, crs, func(a *asked) { a.namespace = "ops" }, false},
		{"the namespace of a service account", `dns: {patterns: ["www.{namespace}.example.com"]}`, csrs, func(a *asked) { a.user = "system:serviceaccount:shop:x" }, true},
		{"no namespace", `dns: {patterns: ["www.{namespace}.example.com"]}`, csrs, nil, false},
		{"a service account", `dns: {patterns: ["{serviceAccount}.shop.example.com"]}`, crs, func(a *asked) { a.user = "system:serviceaccount:ops:www" }, true},
		{"no service account", `dns: {patterns: ["{serviceAccount}.shop.example.com"]}`, crs, nil, false},
		{"a user who is called as a service account is not", `dns: {patterns: ["{serviceAccount}.shop.example.com"]}`, crs, func(a *asked) { a.user = "system:serviceaccount:www" }, false},
		{"a user", `dns: {patterns: ["{user}.shop.example.com"]}`, crs, func(a *asked) { a.user = "www" }, true},
		{"a user with a slash", `uri: {patterns: ["https://example.com/{user}"]}`, crs, func(a *asked) { a.user = "a/b"; a.dns, a.uris = nil, []string{"https://example.com/a/b"} }, false},
		{"a user with a dot", `dns: {patterns: ["{user}.example.com"]}`, crs, func(a *asked) { a.user = "www.shop" }, false},
		{"a user that is *", `dns: {patterns: ["{user}.shop.example.com"]}`, crs, func(a *asked) { a.user = "*" }, false},
		{"a user that is *, in a text", `dns: {}, uri: {patterns: ["https://example.com/{user}"]}`, crs, func(a *asked) { a.user = "*"; a.uris = []string{"https://example.com/x"} }, false},
		{"a label", `dns: {patterns: ["www.{namespaceLabel:l}.example.com"]}`, crs, label("shop"), true},
		{"a label that is *", `dns: {patterns: ["www.{namespaceLabel:l}.example.com"]}`, crs, label("*"), false},
		{"a label that is * and a name that is", `dns: {patterns: ["{namespaceLabel:l}.shop.example.com"], wildcards: true}`, crs, func(a *asked) { label("*")(a); a.dns = []string{"*.shop.example.com"} }, false},
		{"a label with a dot in a part of a label", `dns: {patterns: ["www-{namespaceLabel:l}.example.com"]}`, crs, func(a *asked) { label("x.y")(a); a.dns = []string{"www-x.y.example.com"} }, false},
		{"a label with a dot that is a whole name", `dns: {patterns: ["www.{namespaceLabel:l}"]}`, crs, func(a *asked) { label("x.y")(a); a.dns = []string{"www.x.y"} }, true},
		{"a label that is a zone", `dns: {zones: ["{namespaceLabel:l}"]}`, crs, func(a *asked) { label("shop.example.com")(a) }, true},
		{"a label that is a dot", `dns: {zones: ["{namespaceLabel:l}.example.com"]}`, crs, label("."), false},
		{"an empty label", `dns: {zones: ["{namespaceLabel:l}.example.com"]}`, crs, label(""), false},
		{"an empty label does not shorten", `dns: {patterns: ["www.shop.example.com{namespaceLabel:l}"]}`, crs, label(""), false},
		{"no such label", `dns: {patterns: ["www{podLabel:none}.shop.example.com"]}`, pcrs, nil, false},
		{"a pod", `dns: {patterns: ["{pod}.shop.example.com"]}`, pcrs, func(a *asked) { a.dns = []string{"web-0.shop.example.com"} }, true},
		{"no pod", `dns: {patterns: ["{pod}.shop.example.com"]}`, crs, nil, false},
		{"a pod's label", `dns: {patterns: ["www.{podLabel:l}.example.com"]}`, pcrs, func(a *asked) { a.podLabels = map[string]string{"l": "shop"} }, true},
		{"services", `dns: {patterns: ["{service}.{namespace}.example.com"]}`, pcrs, func(a *asked) { a.services = []string{"api", "www"} }, true},
		{"other services", `dns: {patterns: ["{service}.{namespace}.example.com"]}`, pcrs, func(a *asked) { a.services = []string{"api"} }, false},
		{"no services", `dns: {patterns: ["{service}.{namespace}.example.com"]}`, pcrs, nil, false},
		{"a node", `dns: {patterns: ["{node}.nodes.example.com"]}`, csrs, func(a *asked) { kubelet(a); a.subject = nil }, true},
		{"a node with dots", `dns: {patterns: ["{node}"]}`, csrs, func(a *asked) { a.user = "system:node:n1.example.com"; a.dns = []string{"n1.example.com"} }, true},
		{"the node of a pod", `dns: {patterns: ["{node}.nodes.example.com"]}`, pcrs, func(a *asked) { a.dns = []string{"n1.nodes.example.com"} }, true},
		{"braces", `uri: {patterns: ["https://example.com/{{namespace}}"]}`, crs, func(a *asked) { a.dns, a.uris = nil, []string{"https://example.com/shop"} }, false},
		{"an e-mail domain", `email: {domains: ["{namespace}.example.com"]}`, crs, func(a *asked) { a.dns, a.mail = nil, []string{"a@shop.example.com"} }, true},
		{"a user with @ in an address", `email: {patterns: ["{user}@example.com"]}`, crs, func(a *asked) { a.user = "a@example.org"; a.dns, a.mail = nil, []string{"a@example.com"} }, false},
	} {
		spec := `{effect: Allow, match: {signers: ["*"]}, certificate: {names: {` + tc.names + `}, usages: {allowed: [any, digital signature]}}}`
		if d := decide(t, set(t, map[string]string{"p": spec}), of(tc.kind).but(tc.ask)); (d.Outcome == v1alpha1.OutcomeApprove) != tc.ok {
			t.Errorf("%s: %s: %s", tc.reason, brief(d), d.Message)
		}
	}
}

// TestSubjectTemplates: in a text, what a value contains is never special.
func TestSubjectTemplates(t *testing.T) {
	for _, tc := range []struct {
		user, cn string
		ok       bool
	}{{"system:node:n1", "system:node:n1", true}, {"a*", "abc", false}, {"a*", "a*", true}, {"{namespace}", "shop", false}, {"{namespace}", "{namespace}", true}, {"", "", false}} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {subject: {commonName: {patterns: ["{user}"]}}}}`, "everything": everything})
		d := decide(t, s, of(csrs).but(func(a *asked) { a.user, a.subject = tc.user, rdn("CN", tc.cn) }))
		if (d.Outcome == v1alpha1.OutcomeApprove) != tc.ok {
			t.Errorf("%q asks for %q: %s", tc.user, tc.cn, brief(d))
		}
	}
}

// TestInNames: a common name is one of the names, in any case, and an address
// in any form.
func TestInNames(t *testing.T) {
	s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {subject: {commonName: {inNames: true}}}}`, "everything": everything})
	for cn, ok := range map[string]bool{
		"www.shop.example.com": true, "WWW.shop.example.com": true, "10.0.0.1": true, "::ffff:10.0.0.1": true, "2001:DB8:0:0::1": true, "10.0.0.2": false,
		"shop.example.com": false, "www.shop.example.com.": false, "ann@example.com": false, "": false,
	} {
		d := decide(t, s, of(csrs).but(func(a *asked) {
			a.subject, a.ips, a.mail = rdn("CN", cn), []string{"10.0.0.1", "2001:db8::1"}, []string{"ann@example.com"}
		}))
		if (d.Outcome == v1alpha1.OutcomeApprove) != ok {
			t.Errorf("%q: %s", cn, brief(d))
		}
	}
}

// TestWouldPass: what would be permitted is said.
func TestWouldPass(t *testing.T) {
	for certificate, want := range map[string]string{
		`subject: {organizations: {exactly: [b, a]}}`:                       "a|b",
		`subject: {organizations: {patterns: [x*], matches: [w]}}`:          "x*|what matches w",
		`subject: {organizations: {expression: "['z']"}}`:                   "z",
		`names: {ip: {cidrs: [192.0.2.0/24]}}`:                              "an address in 192.0.2.0/24",
		`names: {email: {domains: [b.example, a.example]}}`:                 "an address of a.example|an address of b.example",
		`names: {uri: {required: true, patterns: ["https://a.example/*"]}}`: "https://a.example/*",
		`names: {max: 1}`: "at most 1",
		`usages: {allowed: [server auth, client auth]}`: "client auth|server auth",
		`lifetime: {max: 1h}`:                           "at most 1h",
		`lifetime: {min: 48h}`:                          "at least 2d",
		`keys: {types: [ED25519]}`:                      "ED25519",
		`subject: {commonName: {inNames: true}}`:        "www.shop.example.com|10.0.0.1",
	} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {` + certificate + `}}`, "everything": everything})
		d := decide(t, s, of(csrs).but(func(a *asked) {
			a.subject, a.ips, a.mail = rdn("CN", "n", "O", "o"), []string{"10.0.0.1"}, []string{"ann@example.com"}
		}))
		if len(d.Violations) == 0 || strings.Join(d.Violations[0].WouldPass, "|") != want {
			t.Errorf("%s: %s", certificate, encode(t, d))
		}
	}
}

// silence has a request for each part of certificate, and what an Allow policy
// says that does not have the part. Limits say nothing then.
func silence() map[string]struct {
	ask       func(*asked)
	violation string
} {
	type one = struct {
		ask       func(*asked)
		violation string
	}
	all := map[string]one{
		"names.dns":   {func(a *asked) { a.dns = []string{"a.example"} }, "certificate.names.dns NameNotPermitted dnsNames[0]=a.example"},
		"names.ip":    {func(a *asked) { a.ips = []string{"10.0.0.1"} }, "certificate.names.ip NameNotPermitted ipAddresses[0]=10.0.0.1"},
		"names.uri":   {func(a *asked) { a.uris = []string{"https://a.example"} }, "certificate.names.uri NameNotPermitted uris[0]=https://a.example"},
		"names.email": {func(a *asked) { a.mail = []string{"a@a.example"} }, "certificate.names.email NameNotPermitted emailAddresses[0]=a@a.example"},
		"names.other": {func(a *asked) { a.others = []pki.OtherName{{Type: oidUPN, Value: "x"}} }, "certificate.names.other NameNotPermitted otherNames[0]=1.3.6.1.4.1.311.20.2.3=x"},
		"authority":   {func(a *asked) { a.ca = &pki.BasicConstraints{IsCA: true} }, "certificate.authority.allowed CertificateAuthorityNotPermitted isCA=true"},
		"extensions":  {func(a *asked) { a.extensions = strangeExtension() }, "certificate.extensions ExtensionNotPermitted extensions[0]=1.2.3"},
		"keys":        {func(a *asked) { a.key = pki.Ed25519 }, ""},
		"lifetime":    {func(a *asked) { a.duration = 100 * 365 * 24 * 3600e9 }, ""},
		"subject.other": {func(a *asked) { a.subject = rdn("UID", "x") },
			"certificate.subject.other[0.9.2342.19200300.100.1.1] SubjectNotPermitted subject.other[0.9.2342.19200300.100.1.1]=x"},
	}
	for field, attribute := range map[string]string{
		"commonName": "CN", "serialNumber": "serialNumber", "organizations": "O", "organizationalUnits": "OU", "countries": "C",
		"localities": "L", "provinces": "ST", "streetAddresses": "street", "postalCodes": "postalCode",
	} {
		all["subject."+field] = one{func(a *asked) { a.subject = rdn(attribute, "x") }, fmt.Sprintf("certificate.subject.%s SubjectNotPermitted subject.%s=x", field, field)}
	}
	return all
}

// TestSilence: what a policy does not mention, an Allow policy does not permit,
// and a Limit does not restrict.
func TestSilence(t *testing.T) {
	cases := silence()
	for _, part := range optional(reflect.TypeFor[v1alpha1.CertificateConditions](), "") {
		if _, has := cases[part]; !has && part != "usages" && part != "subject" && part != "names" && part != "keys.rsa" && !strings.HasSuffix(part, ".excluded") && part != "authority.permitted" {
			t.Errorf("nothing shows what the absence of %s means", part)
		}
	}
	allow := set(t, map[string]string{"p": `{effect: Allow, match: {signers: ["*"]}, certificate: {usages: {allowed: [any, digital signature]}}}`})
	limit := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {}}`, "everything": everything})
	for part, tc := range cases {
		want := "Approve"
		if tc.violation != "" {
			want = "Deny; p " + tc.violation
		}
		a := of(csrs).but(func(a *asked) { a.dns = nil }, tc.ask)
		if got := brief(decide(t, allow, a)); got != want {
			t.Errorf("an Allow without %s: %s, want %s", part, got, want)
		}
		if got := brief(decide(t, limit, a)); got != "Approve" {
			t.Errorf("a Limit without %s: %s", part, got)
		}
	}
}

// optional returns the parts that can be absent as a whole.
func optional(of reflect.Type, prefix string) []string {
	var paths []string
	for field := range fieldsOf(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		is := field.Type
		if name == "" || is.Kind() != reflect.Pointer && (is.Kind() != reflect.Slice || is.Elem().Kind() != reflect.Struct) {
			continue
		}
		if is = is.Elem(); is.Kind() == reflect.Struct && is.PkgPath() == of.PkgPath() {
			paths = append(paths, prefix+name)
			paths = append(paths, optional(is, prefix+name+".")...)
		}
	}
	return paths
}
