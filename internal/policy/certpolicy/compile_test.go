package certpolicy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// TestCompileErrors: a policy that is not valid is refused with the field named.
func TestCompileErrors(t *testing.T) {
	limit := func(text string) string { return `{effect: Limit, match: {signers: ["*"]}, ` + text + `}` }
	cert := func(text string) string { return limit(`certificate: {` + text + `}`) }
	match := func(text string) string { return `{effect: Limit, match: {` + text + `}}` }
	allow := func(text string) string {
		return `{effect: Allow, match: {signers: ["*"]}, certificate: {usages: {allowed: [server auth]}, ` + text + `}}`
	}
	people := func(text string) string {
		return `{effect: Limit, match: {signers: ["*"], kinds: [CertificateRequest]}, approval: {mode: People, people: {` + text + `}}}`
	}
	signers := `signers: ["*"], `
	hundred := "[" + strings.Repeat("1, ", 99) + "1]"
	for _, tc := range []struct {
		reason, spec string
		want         string // a part of the error, with its field
	}{
		{"no effect", `{match: {signers: ["*"]}}`, `spec.effect: Unsupported value: ""`},
		{"an effect", `{effect: Deny, match: {signers: ["*"]}}`, `spec.effect: Unsupported value: "Deny": supported values: "Allow", "Limit", "DenyRest"`},
		{"a mode", limit(`mode: Audit`), `spec.mode: Unsupported value: "Audit"`},
		{"a disclosure", limit(`disclosure: None`), `spec.disclosure: Unsupported value: "None"`},
		{"replaces while enforced", limit(`replaces: q`), `spec.replaces: Forbidden: is only for the modes Shadow and Warn`},
		{"replaces while off", limit(`mode: "Off", replaces: q`), `spec.replaces: Forbidden`},
		{"replaces of itself", limit(`mode: Shadow, replaces: p`), `spec.replaces: Invalid value: "p": must be another policy`},
		{"DenyRest with conditions", `{effect: DenyRest, match: {signers: ["*"]}, certificate: {}}`, `spec.certificate: Forbidden: a DenyRest policy has no conditions`},
		{"DenyRest with rules", `{effect: DenyRest, match: {signers: ["*"]}, rules: [{name: a, expression: "true"}]}`, `spec.rules: Forbidden`},
		{"DenyRest with an approval", `{effect: DenyRest, match: {signers: ["*"]}, approval: {mode: Leave}}`, `spec.approval: Forbidden`},
		{"DenyRest with quotas", `{effect: DenyRest, match: {signers: ["*"]}, quotas: [{name: a, certificates: 1, per: 1h, by: Policy}]}`, `spec.quotas: Forbidden: a DenyRest policy lets nothing through`},
		{"a quota's name", limit(`quotas: [{name: A, certificates: 1, per: 1h, by: Policy}]`), `spec.quotas[0].name: Invalid value: "A"`},
		{"two quotas of one name", limit(`quotas: [{name: a, certificates: 1, per: 1h, by: Policy}, {name: a, certificates: 2, per: 1h, by: Policy}]`), `spec.quotas[1].name: Duplicate value: "a"`},
		{"a quota of nothing", limit(`quotas: [{name: a, certificates: 0, per: 1h, by: Policy}]`), `spec.quotas[0].certificates: Invalid value: 0: must be from 1 to 10000`},
		{"a quota that is too large", limit(`quotas: [{name: a, certificates: 10001, per: 1h, by: Policy}]`), `spec.quotas[0].certificates: Invalid value: 10001`},
		{"a quota for too short a time", limit(`quotas: [{name: a, certificates: 1, per: 59s, by: Policy}]`), `spec.quotas[0].per: Invalid value: "59s": must be from 1m to 168h, in whole seconds`},
		{"a quota for too long a time", limit(`quotas: [{name: a, certificates: 1, per: 168h1s, by: Policy}]`), `spec.quotas[0].per: Invalid value: "168h0m1s"`},
		{"a quota for parts of seconds", limit(`quotas: [{name: a, certificates: 1, per: 90.5s, by: Policy}]`), `spec.quotas[0].per: Invalid value: "1m30.5s"`},
		{"a quota by something else", limit(`quotas: [{name: a, certificates: 1, per: 1h, by: Cluster}]`), `spec.quotas[0].by: Unsupported value: "Cluster"`},
		{"a quota by pod for all kinds", limit(`quotas: [{name: a, certificates: 1, per: 1h, by: Pod}]`), `spec.match.kinds: Required value: must be given without kinds that have no Pod`},
		{"a quota by node for CertificateRequests", `{effect: Limit, match: {signers: ["*"], kinds: [CertificateRequest]}, quotas: [{name: a, certificates: 1, per: 1h, by: Node}]}`,
			`spec.match.kinds: Required value: must be given without kinds that have no Node`},
		{"too many quotas", limit(`quotas: [` + manyQuotas(9) + `]`), `spec.quotas: Too many: 9: must have at most 8 items`},
		{"an Allow without usages", `{effect: Allow, match: {signers: ["*"]}, certificate: {names: {dns: {}}}}`, `spec.certificate.usages: Required value: an Allow policy must list the usages that it permits`},
		{"an Allow without conditions", `{effect: Allow, match: {signers: ["*"]}}`, `spec.certificate.usages: Required value`},
		{"an Allow with empty usages", `{effect: Allow, match: {signers: ["*"]}, certificate: {usages: {}}}`, `spec.certificate.usages.allowed: Required value`},
		{"too large", limit(`message: "` + strings.Repeat("x", 1<<18) + `"`), `spec: Too long`},

		{"no signers", `{effect: Limit, match: {}}`, `spec.match.signers: Required value: at least one signer must be given; "*" is every signer`},
		{"a signer without a slash", match(`signers: [example.com/a, web]`), `spec.match.signers[1]: Invalid value: "web": "web" is not a signer name`},
		{"a kind", match(signers + `kinds: [Certificate]`), `spec.match.kinds[0]: Unsupported value: "Certificate"`},
		{"an origin", match(signers + `origins: [Ingress]`), `spec.match.origins[0]: Unsupported value: "Ingress"`},
		{"an origin that pods' requests do not have", match(signers + `kinds: [PodCertificateRequest], origins: [ACME]`), `spec.match.origins: Invalid value`},
		{"an origin that CertificateSigningRequests do not have", `{effect: DenyRest, match: {signers: ["*"], kinds: [CertificateSigningRequest], origins: [Certificate]}}`, `spec.match.origins: Invalid value`},
		{"a namespace", match(signers + `namespaces: {names: [a/b]}`), `spec.match.namespaces.names[0]: Invalid value: "a/b"`},
		{"an excluded namespace", match(signers + `namespaces: {excluded: [""]}`), `spec.match.namespaces.excluded[0]: Invalid value`},
		{"a selector", match(signers + `namespaces: {selector: {matchExpressions: [{key: a, operator: Like}]}}`), `spec.match.namespaces.selector: Invalid value`},
		{"no requesters", match(signers + `requesters: {}`), `spec.match.requesters: Required value: users, groups, serviceAccounts or excluded must be given`},
		{"a user with * inside", match(signers + `requesters: {users: [a*b]}`), `spec.match.requesters.users[0]: Invalid value: "a*b"`},
		{"an excluded group", match(signers + `requesters: {excluded: {groups: ["*a*"]}}`), `spec.match.requesters.excluded.groups[0]: Invalid value`},
		{"a service account", match(signers + `requesters: {serviceAccounts: [web]}`), `spec.match.requesters.serviceAccounts[0]: Invalid value: "web": "web" must be NAMESPACE/NAME`},
		{"access without a verb", match(signers + `access: [{verb: use}, {verb: ""}]`), `spec.match.access[1].verb: Required value`},
		{"access without a resource", match(signers + `access: [{verb: use, name: x}]`), `spec.match.access[0].resource: Required value`},
		{"a condition's name", match(signers + `conditions: [{name: A, expression: "true"}]`), `spec.match.conditions[0].name: Invalid value: "A"`},
		{"two conditions of one name", match(signers + `conditions: [{name: a, expression: "true"}, {name: a, expression: "true"}]`), `spec.match.conditions[1].name: Duplicate value: "a"`},
		{"a condition without an expression", match(signers + `conditions: [{name: a, expression: ""}]`), `spec.match.conditions[0].expression: Required value`},
		{"a condition of another type", match(signers + `conditions: [{name: b, expression: "true"}, {name: a, expression: request.dnsNames}]`), `spec.match.conditions[1].expression: Invalid value: "request.dnsNames": must yield a bool, and yields list(string)`},

		{"an expression that does not compile", cert(`names: {dns: {expression: "request.dnsNames +"}}`), `spec.certificate.names.dns.expression: Invalid value: "request.dnsNames +": 1:19: Syntax error`},
		{"an expression that is too dear for every request", limit(`rules: [{name: a, expression: "` + hundred + `.map(a, ` + hundred + `.map(b, ` + hundred + `.map(c, a + b + c))).size() > 0"}]`),
			`spec.rules[0].expression: Invalid value`},
		{"an expression that is too long", cert(`names: {dns: {expression: "` + strings.Repeat(" ", 4096) + `[]"}}`), `spec.certificate.names.dns.expression: Too long: may not be more than 4096 bytes`},
		{"a zone with *", cert(`names: {dns: {zones: ["*.example.com"]}}`), `spec.certificate.names.dns.zones[0]: Invalid value: "*.example.com"`},
		{"a zone with an empty label", cert(`names: {dns: {zones: [a, "a..b"]}}`), `spec.certificate.names.dns.zones[1]: Invalid value: "a..b": "a..b": has an empty label`},
		{"a pattern with ** inside", cert(`names: {dns: {patterns: ["a.**.b"]}}`), `spec.certificate.names.dns.patterns[0]: Invalid value`},
		{"a pattern of one label", cert(`names: {dns: {patterns: ["*"]}}`), `spec.certificate.names.dns.patterns[0]: Invalid value`},
		{"a variable that does not exist", cert(`names: {dns: {patterns: ["{team}.example.com"]}}`), `there is no variable {team}`},
		{"an open brace", cert(`names: {uri: {patterns: ["https://a.example/{user"]}}`), `spec.certificate.names.uri.patterns[0]: Invalid value`},
		{"a variable in the host of a URI", cert(`names: {uri: {patterns: ["https://{namespace}.example/*"]}}`), `needs a literal scheme and host`},
		{"a label without a key", cert(`names: {dns: {zones: ["{namespaceLabel}.example.com"]}}`), `spec.certificate.names.dns.zones[0]: Invalid value`},
		{"an excluded zone", cert(`names: {dns: {excluded: {zones: ["-a"]}}}`), `spec.certificate.names.dns.excluded.zones[0]: Invalid value`},
		{"an excluded pattern", cert(`names: {dns: {excluded: {patterns: ["a b"]}}}`), `spec.certificate.names.dns.excluded.patterns[0]: Invalid value`},
		{"a regular expression", cert(`names: {dns: {matches: [a, "("]}}`), `spec.certificate.names.dns.matches[1]: Invalid value: "(": error parsing regexp`},
		{"a regular expression that closes ours", cert(`names: {dns: {matches: ["a)|(b"]}}`), `spec.certificate.names.dns.matches[0]: Invalid value`},
		{"a long regular expression", cert(`names: {dns: {matches: ["` + strings.Repeat("a", 513) + `"]}}`), `has more than 512 characters`},
		{"a network with bits of hosts", cert(`names: {ip: {cidrs: [10.0.0.1/8]}}`), `spec.certificate.names.ip.cidrs[0]: Invalid value: "10.0.0.1/8": "10.0.0.1/8" has bits of hosts: write 10.0.0.0/8`},
		{"an excluded network", cert(`names: {ip: {excluded: {cidrs: [10.0.0.1]}}}`), `spec.certificate.names.ip.excluded.cidrs[0]: Invalid value`},
		{"an e-mail domain", cert(`names: {email: {domains: ["a@b"]}}`), `spec.certificate.names.email.domains[0]: Invalid value`},
		{"an e-mail pattern", cert(`names: {email: {patterns: ["example.com"]}}`), `spec.certificate.names.email.patterns[0]: Invalid value`},
		{"an identifier", cert(`names: {other: [{oid: 1.2.3}, {oid: 1.02}]}`), `spec.certificate.names.other[1].oid: Invalid value: "1.02"`},
		{"an identifier that cannot be encoded", cert(`names: {other: [{oid: 1.50.3}]}`), `spec.certificate.names.other[0].oid: Invalid value: "1.50.3"`},
		{"an identifier twice", cert(`names: {other: [{oid: 1.2.3}, {oid: 1.2.3}]}`), `spec.certificate.names.other[1].oid: Duplicate value`},
		{"no names", cert(`names: {max: 0}`), `spec.certificate.names.max: Invalid value: 0: must be at least 1`},
		{"no DNS names", cert(`names: {dns: {max: 0}}`), `spec.certificate.names.dns.max: Invalid value: 0`},
		{"no IP addresses", cert(`names: {ip: {max: 0}}`), `spec.certificate.names.ip.max: Invalid value: 0`},
		{"no URIs", cert(`names: {uri: {max: -1}}`), `spec.certificate.names.uri.max: Invalid value: -1`},
		{"no e-mail addresses", cert(`names: {email: {max: 0}}`), `spec.certificate.names.email.max: Invalid value: 0`},
		{"no other names", cert(`names: {other: [{oid: 1.2.3, max: 0}]}`), `spec.certificate.names.other[0].max: Invalid value: 0`},

		{"an attribute with a field of its own", cert(`subject: {other: [{oid: 2.5.4.3}]}`), `spec.certificate.subject.other[0].oid: Invalid value: "2.5.4.3": has its own field in subject`},
		{"an attribute twice", cert(`subject: {other: [{oid: 1.2.3}, {oid: 1.2.3}]}`), `spec.certificate.subject.other[1].oid: Duplicate value`},
		{"no organizations", cert(`subject: {organizations: {max: 0}}`), `spec.certificate.subject.organizations.max: Invalid value: 0`},
		{"an empty pattern", cert(`subject: {commonName: {patterns: [""]}}`), `spec.certificate.subject.commonName.patterns[0]: Invalid value`},
		{"an expression of another type", cert(`subject: {countries: {expression: request.isCA}}`), `spec.certificate.subject.countries.expression: Invalid value: "request.isCA": must yield a list of strings, and yields bool`},

		{"a type of key", cert(`keys: {types: [ECDSAP256, RSA]}`), `spec.certificate.keys.types[1]: Unsupported value: "RSA"`},
		{"no keys", cert(`keys: {}`), `spec.certificate.keys: Required value: types, rsa or reuse must be given`},
		{"RSA sizes", cert(`keys: {rsa: {minBits: 4096, maxBits: 2048}}`), `spec.certificate.keys.rsa.maxBits: Invalid value: 2048: must not be less than minBits`},
		{"a small RSA size", cert(`keys: {rsa: {minBits: 512}}`), `spec.certificate.keys.rsa.minBits: Invalid value: 512: must be from 1024 to 16384`},
		{"a large RSA size", cert(`keys: {rsa: {maxBits: 32768}}`), `spec.certificate.keys.rsa.maxBits: Invalid value: 32768`},
		{"a usage", cert(`usages: {allowed: [server auth, serving]}`), `spec.certificate.usages.allowed[1]: Invalid value: "serving"`},
		{"a required usage", cert(`usages: {required: [serving]}`), `spec.certificate.usages.required[0]: Invalid value: "serving"`},
		{"a required usage that is not allowed", cert(`usages: {allowed: [server auth], required: [server auth, client auth]}`), `spec.certificate.usages.required[1]: Invalid value: "client auth": must be among the allowed usages`},
		{"no lifetime", cert(`lifetime: {min: 0s}`), `spec.certificate.lifetime.min: Invalid value: "0s": must be more than zero`},
		{"a negative lifetime", cert(`lifetime: {max: -1h}`), `spec.certificate.lifetime.max: Invalid value: "-1h0m0s"`},
		{"no default lifetime", cert(`lifetime: {default: 0s}`), `spec.certificate.lifetime.default: Invalid value: "0s"`},
		{"lifetimes", cert(`lifetime: {min: 2h, max: 1h}`), `spec.certificate.lifetime.max: Invalid value: "1h0m0s": must not be less than min`},
		{"a default over max", cert(`lifetime: {default: 2h, max: 1h}`), `spec.certificate.lifetime.default: Invalid value: "2h0m0s": must not be more than max`},
		{"a default under min", cert(`lifetime: {default: 1h, min: 2h}`), `spec.certificate.lifetime.default: Invalid value: "1h0m0s": must not be less than min`},
		{"shortened to nothing", cert(`lifetime: {exceeding: Shorten}`), `spec.certificate.lifetime.max: Required value`},
		{"what becomes of too long lifetimes", cert(`lifetime: {max: 1h, exceeding: Cut}`), `spec.certificate.lifetime.exceeding: Unsupported value: "Cut"`},
		{"a CA's conditions without CAs", cert(`authority: {maxPathLength: 0}`), `spec.certificate.authority.allowed: Invalid value: false`},
		{"a path length", cert(`authority: {allowed: true, maxPathLength: -1}`), `spec.certificate.authority.maxPathLength: Invalid value: -1: must be at least 0`},
		{"name constraints", cert(`authority: {allowed: true, nameConstraints: Needed}`), `spec.certificate.authority.nameConstraints: Unsupported value: "Needed"`},
		{"a permitted DNS name", cert(`authority: {allowed: true, permitted: {dns: [a, .example.com]}}`), `spec.certificate.authority.permitted.dns[1]: Invalid value: ".example.com"`},
		{"a permitted network", cert(`authority: {allowed: true, permitted: {ip: [10.0.0.1/8]}}`), `spec.certificate.authority.permitted.ip[0]: Invalid value`},
		{"a permitted host", cert(`authority: {allowed: true, permitted: {uri: ["https://a"]}}`), `spec.certificate.authority.permitted.uri[0]: Invalid value`},
		{"a permitted mailbox", cert(`authority: {allowed: true, permitted: {email: ["a@"]}}`), `spec.certificate.authority.permitted.email[0]: Invalid value`},
		{"an extension", cert(`extensions: {allowed: [subjectAltName]}`), `spec.certificate.extensions.allowed[0]: Invalid value: "subjectAltName"`},

		{"a rule's name", limit(`rules: [{name: "", expression: "true"}]`), `spec.rules[0].name: Invalid value: "": must be a DNS label`},
		{"two rules of one name", limit(`rules: [{name: a, expression: "true"}, {name: a, expression: "true"}]`), `spec.rules[1].name: Duplicate value: "a"`},
		{"a rule's kind", limit(`rules: [{name: a, kinds: [Pod], expression: "true"}]`), `spec.rules[0].kinds[0]: Unsupported value: "Pod"`},
		{"a rule's reason", limit(`rules: [{name: a, expression: "true", reason: not camel}]`), `spec.rules[0].reason: Invalid value: "not camel"`},
		{"a rule without an expression", limit(`rules: [{name: a, expression: ""}]`), `spec.rules[0].expression: Required value`},
		{"a rule of another type", limit(`rules: [{name: b, expression: "true"}, {name: a, expression: "1"}]`), `spec.rules[1].expression: Invalid value: "1": must yield a bool, and yields int`},
		{"a message of another type", limit(`rules: [{name: a, expression: "true", messageExpression: "1"}]`), `spec.rules[0].messageExpression: Invalid value: "1": must yield a string, and yields int`},

		{"a Limit that approves", limit(`approval: {mode: Automatic}`), `spec.approval.mode: Forbidden: a Limit approves nothing: it can only require People`},
		{"a Limit that approves by default", limit(`approval: {}`), `spec.approval.mode: Forbidden`},
		{"an approval", limit(`approval: {mode: Nobody}`), `spec.approval.mode: Unsupported value: "Nobody"`},
		{"people without the mode", strings.Replace(allow(``), "effect: Allow", "effect: Allow, approval: {mode: Leave, people: {count: 2}}", 1), `spec.approval.people: Forbidden: is only for the mode People`},
		{"the mode without people", `{effect: Limit, match: {signers: ["*"], kinds: [CertificateRequest]}, approval: {mode: People}}`, `spec.approval.people: Required value`},
		{"people for pods", `{effect: Limit, match: {signers: ["*"]}, approval: {mode: People, people: {count: 2}}}`, `spec.match.kinds: Required value: must be given without PodCertificateRequest`},
		{"one person", people(`count: 1`), `spec.approval.people.count: Invalid value: 1: must be from 2 to 9`},
		{"ten people", people(`count: 10`), `spec.approval.people.count: Invalid value: 10`},
		{"nobody of somebody", people(`count: 2, from: [{groups: [a], count: 0}]`), `spec.approval.people.from[0].count: Invalid value: 0`},
		{"one of nobody", people(`count: 2, from: [{count: 1}]`), `spec.approval.people.from[0]: Required value: groups or users must be given`},
		{"two of one", people(`count: 2, from: [{users: [a], count: 2}]`), `spec.approval.people.from[0].count: Invalid value: 2`},
		{"a time", people(`count: 2, validFor: 0s`), `spec.approval.people.validFor: Invalid value: "0s"`},
		{"what tells people apart", people(`count: 2, distinctBy: Email`), `spec.approval.people.distinctBy: Invalid value: "Email"`},
		{"what tells people apart, without a key", people(`count: 2, distinctBy: "Extra:"`), `spec.approval.people.distinctBy: Invalid value: "Extra:"`},
	} {
		_, errs, _ := certpolicy.Compile(policy(t, "p", tc.spec))
		if got := fmt.Sprint(errs.ToAggregate()); len(errs) != 1 || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %v, want only %s", tc.reason, got, tc.want)
		}
	}
}

// TestCompileWarnings: what can be meant, but probably is not.
func TestCompileWarnings(t *testing.T) {
	cert := func(text string) string {
		return `{effect: Limit, match: {signers: ["*"]}, certificate: {` + text + `}}`
	}
	for _, tc := range []struct{ spec, want string }{
		{web, ""},
		{everything, ""},
		{cert(`names: {dns: {matches: ["^a"]}}`), `spec.certificate.names.dns.matches[0]: an expression always matches the whole value: leave ^ and $ out`},
		{cert(`names: {uri: {matches: ["a$"]}}`), `spec.certificate.names.uri.matches[0]: an expression always matches the whole value: leave ^ and $ out`},
		{cert(`subject: {commonName: {matches: [a, ".*b"]}}`), `spec.certificate.subject.commonName.matches[1]: an expression that begins with .* permits any beginning`},
		{cert(`names: {dns: {matches: ["a{namespace}"]}}`), `spec.certificate.names.dns.matches[0]: variables such as {namespace} are for patterns: an expression takes them literally`},
		{cert(`names: {dns: {matches: ["a{2,3}"]}}`), ``},
		{`{effect: Limit, match: {signers: ["*"]}, rules: [{name: a, expression: "request.dnsNames.all(a, request.dnsNames.exists(b, a == b))"}]}`,
			`spec.rules[0].expression: may cost more than 1000000 for a large request, which is then refused: make it cheaper`},
		{`{effect: Limit, match: {signers: ["*"]}, rules: [{name: a, expression: "request.dnsNames.all(n, n.matches('[a-z.]+') && inZone(n, 'example.com'))"}]}`, ``},
		{`{effect: Limit, match: {signers: ["*"], requesters: {users: ["*:web"]}}}`, `spec.match.requesters.users[0]: a name that begins with * matches users of every kind, also service accounts and nodes`},
		{`{effect: Limit, match: {signers: ["*"], kinds: [CertificateRequest]}, approval: {mode: People, people: {count: 2, from: [{groups: ["system:authenticated"], count: 1}]}}}`,
			`spec.approval.people.from[0].groups: system:authenticated contains all users who can approve`},
		{`{effect: Limit, match: {signers: ["*"], kinds: [CertificateRequest]}, approval: {mode: People, people: {count: 2, from: [{groups: [a], count: 2}, {groups: [b], count: 1}]}}}`,
			`spec.approval.people.count: the numbers in from add up to 3 people, which is what has to approve`},
	} {
		_, errs, warnings := certpolicy.Compile(policy(t, "p", tc.spec))
		if len(errs) > 0 || strings.Join(warnings, "\n") != tc.want {
			t.Errorf("%s: %v, %q, want %q", tc.spec, errs.ToAggregate(), warnings, tc.want)
		}
	}
}

// TestCompileException: an exception that is not valid is refused with the
// field named, and has no effect.
func TestCompileException(t *testing.T) {
	whole := always90("certificate.names.dns")
	but := func(old, now string) string { return strings.Replace(whole, old, now, 1) }
	items := func(text string) string { return always90(text) }
	for _, tc := range []struct{ reason, spec, want string }{
		{"valid", whole, ""},
		{"an item for all names", items("certificate.names"), ""},
		{"an item for the whole subject", items("certificate.subject"), ""},
		{"a number of attributes", items(`"certificate.subject.other[1.2.3].max"`), ""},
		{"a required name", items("certificate.names.ip.required"), ""},
		{"no policies", but("[p]", "[]"), `spec.policies: Required value`},
		{"no items", items(""), `spec.items: Required value`},
		{"all items", items(`"*"`), `spec.items[0]: Invalid value: "*": must be the address of a condition, such as certificate.names.dns or rules[no-wildcards]`},
		{"all items of certificates", items(`certificate`), `spec.items[0]: Invalid value: "certificate"`},
		{"some items", items(`"certificate.names.*"`), `spec.items[0]: Invalid value`},
		{"an item that does not exist", items(`certificate.names, certificate.names.dsn`), `spec.items[1]: Invalid value: "certificate.names.dsn"`},
		{"an item below one", items(`certificate.lifetime.max.max`), `spec.items[0]: Invalid value`},
		{"an item below a value", items(`certificate.names.dns.required.max`), `spec.items[0]: Invalid value`},
		{"a part of an item", items(`certificate.names.dns.zones`), `spec.items[0]: Invalid value: "certificate.names.dns.zones"`},
		{"CAs", items(`certificate.authority`), `spec.items[0]: Forbidden: the conditions on certificates of CAs hold without exception`},
		{"CAs, more exactly", items(`certificate.authority.allowed`), `spec.items[0]: Forbidden`},
		{"people", items(`approval.people`), `spec.items[0]: Invalid value`},
		{"what cannot be read", items(`request`), `spec.items[0]: Invalid value`},
		{"matches", items(`"match.conditions[a]"`), `spec.items[0]: Invalid value`},
		{"no reason", but("reason: test", `reason: ""`), `spec.reason: Required value: must say why`},
		{"no end", but(`notAfter: "2027-01-01T00:00:00Z"`, `notAfter: null`), `spec.notAfter: Required value`},
		{"nobody in particular", but(`{signers: ["*"], requesters: {users: ["*"]}}`, `{signers: ["*"]}`), `spec.match: Required value: requesters or namespaces must be given`},
		{"everybody but somebody", but(`{users: ["*"]}`, `{excluded: {users: [bob]}}`), `spec.match: Required value`},
		{"every namespace but one", but(`requesters: {users: ["*"]}`, `namespaces: {excluded: [a]}`), `spec.match: Required value`},
		{"a namespace", but(`requesters: {users: ["*"]}`, `namespaces: {names: [a]}`), ``},
		{"labels of a namespace", but(`requesters: {users: ["*"]}`, `namespaces: {selector: {matchLabels: {a: b}}}`), ``},
		{"access", but(`requesters: {users: ["*"]}`, `requesters: {users: ["*"]}, access: [{verb: use}]`), `spec.match.access: Forbidden: is only for policies`},
		{"no signers", but(`signers: ["*"], `, ``), `spec.match.signers: Required value`},
		{"a condition", but(`requesters: {users: ["*"]}`, `requesters: {users: ["*"]}, conditions: [{name: a, expression: "1"}]`), `spec.match.conditions[0].expression: Invalid value`},
	} {
		x := exception(t, "x", tc.spec)
		one, errs := certpolicy.CompileException(x)
		if got := fmt.Sprint(errs.ToAggregate()); tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.Contains(got, tc.want)) {
			t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
		}
		if (one.Err() == nil) != (tc.want == "") {
			t.Errorf("%s: %v", tc.reason, one.Err())
		}
		if tc.want == "" || !strings.Contains(tc.spec, "certificate.names.dns]") {
			continue
		}
		s := certpolicy.NewSet([]*v1alpha1.CertificatePolicy{policy(t, "p", web)}, []*v1alpha1.CertificatePolicyException{x})
		if d := decide(t, s, of(csrs).but(func(a *asked) { a.dns = []string{"www.example.org"} })); d.Outcome != v1alpha1.OutcomeDeny {
			t.Errorf("%s: it has an effect: %s", tc.reason, brief(d))
		}
	}
}
