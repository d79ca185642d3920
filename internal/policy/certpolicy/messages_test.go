package certpolicy_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// TestMessages: what requesters read.
func TestMessages(t *testing.T) {
	limit := func(certificate string) string {
		return `{effect: Limit, match: {signers: ["*"]}, certificate: ` + certificate + `}`
	}
	rule := func(text string) string {
		return `{effect: Limit, match: {signers: ["*"]}, rules: [{name: r, expression: "false", ` + text + `}]}`
	}
	foreign := func(a *asked) { a.dns = append(a.dns, "www.example.org") }
	tests := []struct {
		reason   string
		policies map[string]string
		kind     v1alpha1.RequestKind
		ask      func(*asked)
		want     string
	}{
		{"a zone", map[string]string{"web-shop": web}, crs, foreign, `certificate policy web-shop: dnsNames[1] "www.example.org" is in none of the zones shop.example.com`},
		{"zones and patterns", map[string]string{"p": limit(`{names: {dns: {zones: [b.example, a.example], patterns: ["x.*.com"], matches: ["y+"]}}}`)}, crs, foreign,
			`certificate policy p: dnsNames[0] "www.shop.example.com" is in none of the zones a.example, b.example and matches none of the patterns x.*.com and matches none of the expressions y+; ` +
				`dnsNames[1] "www.example.org" is in none of the zones a.example, b.example and matches none of the patterns x.*.com and matches none of the expressions y+`},
		{"a variable without a value", map[string]string{"p": limit(`{names: {dns: {zones: ["{namespaceLabel:zone}.example.com"]}}}`)}, crs, nil,
			`certificate policy p: dnsNames[0] "www.shop.example.com" is in none of the zones {namespaceLabel:zone}.example.com ({namespaceLabel:zone} has no value)`},
		{"a variable with a value that is no label", map[string]string{"p": limit(`{names: {dns: {patterns: ["www.{user}.example.com"]}}}`)}, crs, func(a *asked) { a.user = "a/b" },
			`certificate policy p: dnsNames[0] "www.shop.example.com" matches none of the patterns www.{user}.example.com ({user} is "a/b", which is not a label of a DNS name)`},
		{"a wildcard", map[string]string{"web": web}, crs, func(a *asked) { a.dns = []string{"*.shop.example.com"} },
			`certificate policy web: dnsNames[0] "*.shop.example.com" is a wildcard, and the policy permits none`},
		{"an IP address as a DNS name", map[string]string{"web": web}, crs, func(a *asked) { a.dns = []string{"10.0.0.1"} },
			`certificate policy web: dnsNames[0] "10.0.0.1" is an IP address: ask for it as an IP address`},
		{"a kind of name that the policy does not mention", map[string]string{"web": web}, crs, func(a *asked) { a.ips = []string{"10.0.0.1"} },
			`certificate policy web: ipAddresses[0] "10.0.0.1" is not permitted: the policy permits no IP addresses`},
		{"an attribute that the policy does not mention", map[string]string{"web": web}, crs, func(a *asked) { a.subject = rdn("CN", "x", "UID", "y") },
			`certificate policy web: subject.commonName "x" is not permitted: the policy permits no such attribute; subject.other[0.9.2342.19200300.100.1.1] "y" is not permitted: the policy permits no such attribute`},
		{"an expression's values", map[string]string{"p": limit(`{names: {dns: {expression: "['a.example', 'b.example']"}}}`)}, crs, nil,
			`certificate policy p: dnsNames[0] "www.shop.example.com" is not among "a.example", "b.example"`},
		{"keys", map[string]string{"p": limit(`{keys: {types: [RSA3072, ED25519], rsa: {minBits: 4096}}}`)}, crs, nil,
			`certificate policy p: the key is ECDSA P-256, and the policy permits ED25519, RSA3072, RSA of at least 4096 bits`},
		{"a lifetime", map[string]string{"p": limit(`{lifetime: {max: 1h}}`)}, crs, nil, `certificate policy p: the lifetime 1d is longer than 1h`},
		{"no lifetime, of another signer", map[string]string{"p": limit(`{lifetime: {max: 1h}}`)}, crs, func(a *asked) { a.noLife, a.foreign = true, true },
			`certificate policy p: the request must name a lifetime of at most 1h, because the signer is not of this server`},
		{"usages", map[string]string{"p": limit(`{usages: {allowed: [server auth, key encipherment]}}`)}, crs, nil,
			`certificate policy p: the usage "digital signature" is none of "key encipherment", "server auth"`},
		{"the policy's own words", map[string]string{"p": "message: |\n  other names:\n  ask #pki\n" + web}, crs, foreign,
			`certificate policy p: dnsNames[1] "www.example.org" is in none of the zones shop.example.com. other names: ask #pki`},
		{"several policies: Limits first, the nearest Allow then", map[string]string{
			"z": limit(`{names: {max: 1}}`), "a": web, "b": `{effect: Allow, match: {signers: ["*"]}, certificate: {usages: {allowed: [client auth]}}}`,
		}, crs, foreign,
			`certificate policy z: the certificate would have 2 names, and the policy permits 1; certificate policy a: dnsNames[1] "www.example.org" is in none of the zones shop.example.com; ` +
				`certificate policy b: dnsNames[0] "www.shop.example.com" is not permitted: the policy permits no DNS names; certificate policy b: dnsNames[1] "www.example.org" is not permitted: the policy permits no DNS names; ` +
				`certificate policy b: the usage "digital signature" is none of "client auth"; certificate policy b: the usage "server auth" is none of "client auth"`},
		{"a rule's message", map[string]string{"p": rule(`message: "names under dev are for dev"`)}, crs, nil, `certificate policy p: names under dev are for dev`},
		{"a rule's message expression", map[string]string{"p": rule(`message: m, messageExpression: "'not ' + requester.username"`)}, crs, nil, `certificate policy p: not alice`},
		{"a message expression that fails", map[string]string{"p": rule(`message: m, messageExpression: "request.labels['x']"`)}, crs, nil, `certificate policy p: m`},
		{"a message expression that yields nothing", map[string]string{"p": rule(`messageExpression: "''"`)}, crs, nil, `certificate policy p: the rule r does not hold: false`},
		{"a message expression that quotes the request", map[string]string{"p": rule(`messageExpression: "'no ' + request.subject.commonName"`)}, crs,
			func(a *asked) { a.subject = rdn("CN", "a\x1b[31m\r\nb\u009b\u202e\u2028c\u0085d") }, "certificate policy p: no a [31m b c d"},
		{"a rule without a message", map[string]string{"p": rule(`reason: NoDev`)}, crs, nil, `certificate policy p: the rule r does not hold: false`},
		{"a value that would disturb a terminal", map[string]string{"p": limit(`{subject: {commonName: {patterns: [x]}}}`)}, crs,
			func(a *asked) { a.subject = rdn("CN", "\x1b[2J\u202e\n"+strings.Repeat("ä", 100)) },
			`certificate policy p: subject.commonName "\x1b[2J\u202e\n` + strings.Repeat(`\u00e4`, 58) + `..." matches none of the patterns x`},
		{"no Allow policy", map[string]string{"rest": "message: label the namespace\n" + `effect: DenyRest` + "\n" + `match: {signers: ["*"]}`}, crs, nil,
			`certificate policy rest: no Allow policy is about this request. label the namespace`},
		{"a fact", map[string]string{"p": `{effect: Limit, match: {signers: ["*"], origins: [Direct]}}`}, crs, func(a *asked) { a.originUnknown = true }, `certificate policy p: not known yet: origin`},
		{"a fact, later", map[string]string{"p": `{effect: Limit, match: {signers: ["*"], origins: [Direct]}}`}, crs, func(a *asked) { a.originUnknown, a.created = true, now.AddDate(0, 0, -1) },
			`certificate policy p: cannot be judged: origin is not known`},
		{"a CA", map[string]string{"web": web}, crs, func(a *asked) { a.isCA = true },
			`certificate policy web: the certificate would be for a CA, and the policy permits none`},
		{"constraints", map[string]string{"p": limit(`{authority: {allowed: true, permitted: {dns: [example.com]}}}`)}, crs,
			func(a *asked) {
				a.ca = &pki.BasicConstraints{IsCA: true, MaxPathLen: -1}
				a.constraints = &pki.NameConstraints{Critical: true, Permitted: pki.NameTrees{DNSDomains: []string{"example.org"}, IPRanges: ipNet("10.0.0.0/8")}}
			},
			`certificate policy p: the CA could issue for "example.org", and the policy permits example.com; the CA could issue for "10.0.0.0/8", and the policy permits none of this kind`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			d := decide(t, set(t, tc.policies), of(tc.kind).but(tc.ask))
			if diff := cmp.Diff(tc.want, d.Message); diff != "" {
				t.Errorf("(-want +got)\n%s\n%s", diff, brief(d))
			}
			if !printable(d.Message) {
				t.Errorf("the message %q is not of one line", d.Message)
			}
			for _, v := range d.Violations {
				if len(v.Message) > 5*1024 || !printable(v.Message) {
					t.Errorf("the message of a violation: %q", v.Message)
				}
			}
		})
	}
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// TestLongMessages: a message has at most 10 violations and 5 KiB of them.
func TestLongMessages(t *testing.T) {
	long := func(n, length int) asked {
		return of(csrs).but(func(a *asked) {
			a.dns = nil
			for i := range n {
				a.dns = append(a.dns, fmt.Sprintf("n%d.%s.example.org", i, strings.Repeat("x", length)))
			}
		})
	}
	many := "effect: Allow\nmatch: {signers: ['*']}\ncertificate: {names: {dns: {zones: [" + zones(40) + "]}}, usages: {allowed: [any, digital signature]}}"
	for _, tc := range []struct {
		reason        string
		spec          string
		names, length int
		parts, more   int
	}{
		{"10", web, 10, 20, 10, 0}, {"11", web, 11, 20, 11, 1}, {"all that are permitted", web, 300, 20, 11, 290},
		{"long texts", many, 10, 60, 0, 0},
	} {
		d := decide(t, set(t, map[string]string{"p": "message: last words\n" + tc.spec}), long(tc.names, tc.length))
		if len(d.Violations) != tc.names {
			t.Errorf("%s: %d violations", tc.reason, len(d.Violations))
		}
		if parts := strings.Count(d.Message, "; ") + 1; tc.parts > 0 && parts != tc.parts {
			t.Errorf("%s: %d parts of %s", tc.reason, parts, d.Message)
		}
		if want := fmt.Sprintf("; and %d more. last words", tc.more); tc.more > 0 && !strings.HasSuffix(d.Message, want) {
			t.Errorf("%s: no %q in %s", tc.reason, want, d.Message)
		}
		if len(d.Violations[0].WouldPass) > 11 {
			t.Errorf("%s: %d values would pass", tc.reason, len(d.Violations[0].WouldPass))
		}
		if len(d.Message) > 6*1024 || !strings.HasSuffix(d.Message, ". last words") {
			t.Errorf("%s: %d bytes, ends with %q", tc.reason, len(d.Message), d.Message[len(d.Message)-50:])
		}
	}
}

// zones returns long zones, of which a message lists ten.
func zones(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("z%d.%s.example", i, strings.TrimSuffix(strings.Repeat(strings.Repeat("y", 60)+".", 3), ".")))
	}
	return strings.Join(list, ", ")
}

// TestViolationOrder: violations are in the order of their addresses, and then
// of their values in the request.
func TestViolationOrder(t *testing.T) {
	s := set(t, map[string]string{"web": web})
	d := decide(t, s, of(csrs).but(func(a *asked) {
		a.key, a.subject = pki.Ed25519, rdn("CN", "x")
		a.dns = nil
		for i := range 12 {
			a.dns = append(a.dns, fmt.Sprintf("%c.example.org", 'z'-i))
		}
	}))
	var got []string
	for _, v := range d.Violations {
		got = append(got, v.Field)
	}
	want := "dnsNames[0] dnsNames[1] dnsNames[2] dnsNames[3] dnsNames[4] dnsNames[5] dnsNames[6] dnsNames[7] dnsNames[8] dnsNames[9] dnsNames[10] dnsNames[11] subject.commonName"
	if strings.Join(got, " ") != want {
		t.Errorf("the order is %v", got)
	}
}

// TestDenyingPolicy: the policy, the reason and the first violation of a
// decision are of one policy.
func TestDenyingPolicy(t *testing.T) {
	s := set(t, map[string]string{
		"everything": everything,
		"a":          `{effect: Limit, match: {signers: ["*"]}, rules: [{name: r, expression: "false", reason: A}, {name: s, expression: "false", reason: A}]}`,
		"b":          `{effect: Limit, match: {signers: ["*"]}, rules: [{name: r, expression: "false", reason: B}]}`,
	})
	d := decide(t, s, of(csrs))
	if d.Policy.Name != d.Violations[0].Policy || d.Reason != d.Violations[0].Reason || !strings.HasPrefix(d.Message, "certificate policy "+d.Policy.Name+": ") {
		t.Errorf("denied by %s for %s: %s", d.Policy.Name, d.Reason, brief(d))
	}
}

// TestDisclosure: requesters of a policy that discloses only reasons read only
// these, and operators all.
func TestDisclosure(t *testing.T) {
	s := set(t, map[string]string{
		"open":   `{effect: Limit, match: {signers: ["*"]}, certificate: {names: {dns: {zones: [open.example]}}}}`,
		"secret": "disclosure: Reason\nmessage: 'ask #pki'\n" + web,
	})
	d := decide(t, s, of(csrs).but(func(a *asked) {
		a.dns = []string{"www.example.org"}
		a.isCA = true
		a.usages = append(a.usages, "cert sign")
	}))
	want := `certificate policy open: dnsNames[0] "www.example.org" is in none of the zones open.example; certificate policy secret: isCA is not permitted (CertificateAuthorityNotPermitted); ` +
		`certificate policy secret: dnsNames[0] is not permitted (NameNotPermitted); certificate policy secret: usages[2] is not permitted (UsageNotPermitted)`
	if d.Message != want {
		t.Errorf("the message is %s", d.Message)
	}
	if got := d.Violations[2]; got.Value != "www.example.org" || len(got.WouldPass) == 0 || !strings.Contains(got.Message, "shop.example.com") {
		t.Errorf("operators see %+v", got)
	}
	for _, v := range s.Disclosed(d.Violations) {
		if v.Policy == "secret" && (v.Value != "" || v.WouldPass != nil || strings.Contains(v.Message, "shop")) {
			t.Errorf("requesters see %+v", v)
		}
	}
}
