package certpolicy_test

import (
	"maps"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// nothing permits no request, so that it shows what a policy matches.
const nothing = `rules: [{name: never, expression: "false"}]`

// denied is what nothing says.
const denied = "Deny; p rules[never] RuleViolated"

func fieldCases() map[string][]fieldCase {
	all := map[string][]fieldCase{}
	for _, some := range []map[string][]fieldCase{
		policyFields(), protectionFields(), matchFields(), accessFields(), subjectFields(), dnsFields(), nameFields(), termFields(), authorityFields(), ruleFields(), quotaFields(), approvalFields(),
	} {
		maps.Copy(all, some)
	}
	return all
}

func policyFields() map[string][]fieldCase {
	foreign := func(a *asked) { a.dns = []string{"www.example.org"} }
	return map[string][]fieldCase{
		"effect": {
			{reason: "a Limit refuses where an Allow only does not allow", spec: `{effect: Limit, certificate: {names: {dns: {zones: [shop.example.com]}}, usages: {allowed: [any, digital signature]}}}`,
				ask: foreign, with: "Deny; p certificate.names.dns NameNotPermitted dnsNames[0]=www.example.org", instead: "Allow"},
			{reason: "DenyRest denies what no other policy is about", spec: `{effect: DenyRest}`, ordinary: "Deny; p effect NotAllowed",
				with: "Deny; p effect NotAllowed", without: "Leave", instead: "Limit"},
		},
		"mode": {
			{reason: "Off", spec: "mode: 'Off'\n" + nothing, with: "Approve", without: denied},
			{reason: "Shadow", spec: "mode: Shadow\n" + nothing, with: "Approve", without: denied},
			{reason: "Warn", spec: "mode: Warn\n" + nothing, with: "Approve", without: denied},
		},
		// What a policy replaces shows only in what its shadow would change.
		"replaces":    {{reason: "see TestReplaces", spec: "mode: Shadow\nreplaces: everything\n" + nothing, with: "Approve", without: "Approve"}},
		"description": {{spec: "description: for people\n" + nothing, ordinary: denied, with: denied, without: denied}},
		"message":     {{spec: "message: 'ask #pki'\n" + nothing, ordinary: denied, with: denied, without: denied, message: ". ask #pki"}},
		"disclosure": {{spec: "disclosure: Reason\n" + nothing, ordinary: denied, with: denied, without: denied,
			message: "certificate policy p: the request is not permitted (RuleViolated)"}},
	}
}

// protectionFields say who changes a policy, which decides about no request. That
// they are obeyed is tested in the package protection.
func protectionFields() map[string][]fieldCase {
	all := map[string][]fieldCase{}
	for field, instead := range map[string]any{
		"count": 3, "from[].groups": []any{"ops"}, "from[].users": []any{"alice"}, "from[].count": 2, "validFor": "2h", "serviceAccounts": false, "distinctBy": "Username",
	} {
		all["protection.people."+field] = []fieldCase{{
			spec:     "protection: {people: {count: 2, validFor: 1h, serviceAccounts: true, distinctBy: 'Extra:id', from: [{groups: [pki], users: [bob], count: 1}]}}\n" + nothing,
			ordinary: denied, with: denied, without: denied, instead: instead,
		}}
	}
	return all
}

func matchFields() map[string][]fieldCase {
	// A policy that is not about a request does not refuse it.
	match := func(text string, ask func(*asked)) fieldCase {
		return fieldCase{spec: "match: " + text + "\n" + nothing, ordinary: denied, ask: ask, with: "Approve", without: denied}
	}
	account := func(name string) func(*asked) {
		return func(a *asked) {
			a.user = "system:serviceaccount:" + name
			a.groups = []string{"system:serviceaccounts"}
		}
	}
	inShop := func(tc fieldCase) fieldCase { tc.kind = crs; return tc }
	signers := match(`{signers: [example.com/*]}`, func(a *asked) { a.signer = "example.org/web" })
	signers.instead = []any{"*"}
	only := func(tc fieldCase, ordinary func(*asked)) fieldCase {
		tc.ordinary, tc.ask = "Approve", ordinary
		tc.with, tc.without = denied, denied
		return tc
	}
	_ = only
	failing := fieldCase{reason: "the name is only an address", spec: `{match: {conditions: [{name: team, expression: "requester.username == 'alice'"}]}, rules: [{name: never, expression: "false"}]}`,
		ordinary: denied, with: denied, without: denied, instead: "group"}
	return map[string][]fieldCase{
		"match.kinds":   {match(`{kinds: [CertificateSigningRequest]}`, func(a *asked) { *a = of(crs) })},
		"match.signers": {signers},
		"match.origins": {match(`{origins: [Direct]}`, func(a *asked) { a.origin = new(v1alpha1.OriginACME) })},
		"match.namespaces.names": {
			inShop(match(`{namespaces: {names: [shop, "shop-*"]}}`, func(a *asked) { a.namespace = "ops" })),
		},
		"match.namespaces.excluded": {inShop(match(`{namespaces: {names: ["*"], excluded: [ops]}}`, func(a *asked) { a.namespace = "ops" }))},
		"match.namespaces.selector": {
			inShop(match(`{namespaces: {names: ["*"], selector: {matchLabels: {team: shop}}}}`, func(a *asked) { a.namespaceLabels = map[string]string{"team": "ops"} })),
		},
		"match.requesters.users":           {match(`{requesters: {users: [alice], excluded: {users: [nobody]}}}`, func(a *asked) { a.user = "bob" })},
		"match.requesters.groups":          {match(`{requesters: {groups: ["team-*"], excluded: {users: [nobody]}}}`, func(a *asked) { a.groups = []string{"ops"} })},
		"match.requesters.serviceAccounts": {accountCase(match(`{requesters: {serviceAccounts: ["shop/*"], excluded: {users: [nobody]}}}`, nil), account("ops:web"))},
		"match.requesters.excluded.users":  {match(`{requesters: {users: ["*"], excluded: {users: [bob]}}}`, func(a *asked) { a.user = "bob" })},
		"match.requesters.excluded.groups": {match(`{requesters: {users: ["*"], excluded: {groups: [ops]}}}`, func(a *asked) { a.groups = []string{"ops"} })},
		"match.requesters.excluded.serviceAccounts": {
			match(`{requesters: {users: ["*"], excluded: {serviceAccounts: [ops/web]}}}`, account("ops:web")),
		},
		"match.conditions[].name": {failing},
		"match.conditions[].expression": {{spec: `{match: {conditions: [{name: team, expression: "requester.username == 'alice'"}]}, rules: [{name: never, expression: "false"}]}`,
			ordinary: denied, ask: func(a *asked) { a.user = "bob" }, with: "Approve", without: denied, instead: "true"}},
	}
}

// accountCase is for a policy that is about service accounts: another one is
// not matched, and an ordinary user is not either.
func accountCase(tc fieldCase, ask func(*asked)) fieldCase {
	tc.ask, tc.ordinary = ask, "Approve"
	return tc
}

func accessFields() map[string][]fieldCase {
	full := certpolicy.Access{Verb: "use", Group: "example.com", Resource: "zones", Subresource: "names", Name: "shop"}
	// Who may do only what the policy without the field asks for.
	access := func(change func(*certpolicy.Access), instead any) fieldCase {
		lesser := full
		change(&lesser)
		return fieldCase{
			spec:     "match: {access: [{verb: use, group: example.com, resource: zones, subresource: names, name: shop}]}\n" + nothing,
			ordinary: "Wait; p match wants access use zones.example.com/names/shop", ask: func(a *asked) { a.access = map[certpolicy.Access]bool{full: false, lesser: true} },
			with: "Approve", without: denied, instead: instead,
		}
	}
	return map[string][]fieldCase{
		"match.access[].verb":        {access(func(a *certpolicy.Access) { a.Verb = "view" }, "view")},
		"match.access[].group":       {access(func(a *certpolicy.Access) { a.Group = "" }, nil)},
		"match.access[].resource":    {access(func(a *certpolicy.Access) { a.Resource = "domains" }, "domains")},
		"match.access[].subresource": {access(func(a *certpolicy.Access) { a.Subresource = "" }, nil)},
		"match.access[].name":        {access(func(a *certpolicy.Access) { a.Name = "" }, nil)},
	}
}

func ruleFields() map[string][]fieldCase {
	rule := `rules: [{name: no-ops, kinds: [CertificateSigningRequest, CertificateRequest], expression: "requester.username != 'bob'",
  message: bob may not, messageExpression: "'not ' + requester.username", reason: NotBob, field: requester}]`
	bob := func(a *asked) { a.user = "bob" }
	const with = "Deny; p rules[no-ops] NotBob requester"
	plain := `rules: [{name: no-ops, expression: "requester.username != 'bob'", message: bob may not}]`
	return map[string][]fieldCase{
		"rules[].name":              {{spec: rule, ask: bob, with: with, without: "Deny; p rules[not-bob] NotBob requester", instead: "not-bob"}},
		"rules[].expression":        {{spec: rule, ask: bob, with: with, instead: "true"}},
		"rules[].kinds":             {ruleOfKind()},
		"rules[].message":           {{spec: plain, ask: bob, with: "Deny; p rules[no-ops] RuleViolated", without: "Deny; p rules[no-ops] RuleViolated", message: "certificate policy p: bob may not"}},
		"rules[].messageExpression": {{spec: rule, ask: bob, with: with, without: with, message: "certificate policy p: not bob"}},
		"rules[].reason":            {{spec: rule, ask: bob, with: with, without: "Deny; p rules[no-ops] RuleViolated requester"}},
		"rules[].field":             {{spec: rule, ask: bob, with: with, without: "Deny; p rules[no-ops] NotBob"}},
	}
}

func ruleOfKind() fieldCase {
	return fieldCase{reason: "another kind", spec: `rules: [{name: never, kinds: [CertificateRequest], expression: "false"}]`,
		with: "Approve", without: denied}
}

func approvalFields() map[string][]fieldCase {
	const people = `{match: {kinds: [CertificateSigningRequest]}, approval: {mode: People, people: {count: 2,
  from: [{groups: [pki], users: [carol], count: 1}, {groups: [security], count: 1}], validFor: 2h, serviceAccounts: true, distinctBy: "Extra:person", override: Allowed, carryOver: Allowed}}}`
	vote := func(user string, ago time.Duration, groups ...string) quorum.Vote {
		return quorum.Vote{Username: user, Groups: groups, Time: now.Add(-ago), Extra: map[string][]string{"person": {user}}}
	}
	voted := func(votes ...quorum.Vote) func(*asked) { return func(a *asked) { a.votes = votes } }
	needs := func(with, without string, instead any, votes ...quorum.Vote) fieldCase {
		return fieldCase{spec: people, ordinary: "NeedPeople", ask: voted(votes...), with: with, without: without, instead: instead}
	}
	same := vote("alice2", 0, "security")
	same.Extra = map[string][]string{"person": {"bob"}}
	robot := vote("system:serviceaccount:ops:robot", 0, "security")
	boss := vote("eve", 0)
	boss.Override = &quorum.Override{Why: "an outage", Policies: []string{"p"}}
	earlier := vote("bob", 0, "pki")
	earlier.CarriedFrom = "shop/order"
	mode := fieldCase{reason: "Leave", spec: `{effect: Allow, certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}}, approval: {mode: Leave}}`,
		ordinary: "Leave", with: "Leave", without: "Approve", instead: "Automatic"}
	return map[string][]fieldCase{
		"approval.mode":                   {mode},
		"approval.renewals":               {renewalField()},
		"approval.people.count":           {needs("Approve", "NeedPeople", 3, vote("bob", 0, "pki"), vote("dora", 0, "security"))},
		"approval.people.from[].groups":   {needs("Approve", "NeedPeople", []any{"other"}, vote("bob", 0, "pki"), vote("dora", 0, "security"))},
		"approval.people.from[].users":    {needs("Approve", "NeedPeople", nil, vote("carol", 0), vote("dora", 0, "security"))},
		"approval.people.from[].count":    {needs("Approve", "NeedPeople", 2, vote("bob", 0, "pki"), vote("dora", 0, "security"))},
		"approval.people.validFor":        {needs("NeedPeople", "Approve", nil, vote("bob", 3*time.Hour, "pki"), vote("dora", 0, "security"))},
		"approval.people.serviceAccounts": {needs("Approve", "NeedPeople", nil, vote("bob", 0, "pki"), robot)},
		"approval.people.override":        {needs("Approve", "NeedPeople", nil, boss)},
		"approval.people.carryOver":       {needs("Approve", "NeedPeople", nil, earlier, vote("dora", 0, "security"))},
		"approval.people.distinctBy":      {needs("NeedPeople", "Approve", nil, vote("bob", 0, "pki"), same)},
	}
}
