package policies_test

import "github.com/certplane/certplane/api/certplane/v1alpha1"

// decidedCase is a request of alice, unless it says otherwise, for the names
// www.shop.example.com and, if it is foreign, www.example.org. SIGNER stands for
// a signer of its own.
type decidedCase struct {
	reason   string
	policies []string
	foreign  bool
	as       string
	// signer is empty for a signer of its own, which is of another program. The
	// command line is told whether the signer is ours (--own-signer).
	signer string
	// kubelet: the request is for the client certificate of a kubelet.
	kubelet bool
	want    v1alpha1.DecisionOutcome
}

const (
	allowShop = `{metadata: {name: allow}, spec: {effect: Allow, match: {signers: [SIGNER]}, certificate: {usages: {allowed: [digital signature, client auth]}, names: {dns: {zones: [shop.example.com]}}}}}`
	limitShop = `{metadata: {name: limit}, spec: {effect: Limit, match: {signers: [SIGNER]}, certificate: {names: {dns: {zones: [shop.example.com]}}}, message: "ask #pki"}}`
	allowAny  = `{metadata: {name: any}, spec: {effect: Allow, match: {signers: [SIGNER]}, certificate: {usages: {allowed: [digital signature, client auth]}, names: {dns: {}}}}}`
	denyRest  = `{metadata: {name: rest}, spec: {effect: DenyRest, match: {signers: [SIGNER]}}}`
	people    = `{metadata: {name: people}, spec: {effect: Limit, match: {kinds: [CertificateSigningRequest], signers: [SIGNER]}, approval: {mode: People, people: {count: 2, from: [{groups: [pki], count: 1}]}}}}`
)

var decidedCases = []decidedCase{
	{reason: "allowed", policies: []string{allowShop}, want: "Approve"},
	{reason: "not what an Allow allows", policies: []string{allowShop}, foreign: true, want: "Deny"},
	{reason: "one of two allows", policies: []string{allowShop, allowAny}, foreign: true, want: "Approve"},
	{reason: "past a Limit", policies: []string{limitShop, allowAny}, foreign: true, want: "Deny"},
	{reason: "a Limit and an Allow are violated", policies: []string{limitShop, allowShop}, foreign: true, want: "Deny"},
	{reason: "only a Limit, which holds", policies: []string{limitShop}, want: "Leave"},
	{reason: "the rest", policies: []string{denyRest}, want: "Deny"},
	{reason: "not the rest", policies: []string{denyRest, allowAny}, want: "Approve"},
	{reason: "people are missing", policies: []string{people, allowAny}, want: "NeedPeople"},
	{reason: "people cannot help", policies: []string{people, limitShop}, foreign: true, want: "Deny"},
	{reason: "several conditions", policies: []string{`{metadata: {name: strict}, spec: {effect: Limit, match: {signers: [SIGNER]},
		certificate: {names: {max: 1, dns: {zones: [shop.example.com]}}, keys: {types: [RSA4096]}, usages: {required: [server auth]}}}}`}, foreign: true, want: "Deny"},
	{reason: "a rule", policies: []string{`{metadata: {name: rule}, spec: {effect: Limit, match: {signers: [SIGNER]},
		rules: [{name: short, expression: "request.dnsNames.size() < 2", messageExpression: "'too many: ' + string(request.dnsNames.size())", field: dnsNames}]}}`}, foreign: true, want: "Deny"},
	{reason: "a rule that fails", policies: []string{`{metadata: {name: fails}, spec: {effect: Limit, match: {signers: [SIGNER]}, rules: [{name: label, expression: "request.labels['team'] == 'x'"}]}}`}, want: "Deny"},
	{reason: "a condition of match", policies: []string{`{metadata: {name: matches}, spec: {effect: DenyRest, match: {signers: [SIGNER], conditions: [{name: foreign, expression: "request.dnsNames.exists(n, !inZone(n, 'shop.example.com'))"}]}}}`}, foreign: true, want: "Deny"},
	{reason: "a right that the requester has", policies: []string{`{metadata: {name: right}, spec: {effect: DenyRest, match: {signers: [SIGNER], access: [{verb: create, group: certificates.k8s.io, resource: certificatesigningrequests}]}}}`}, want: "Deny"},
	{reason: "a right that the requester lacks", policies: []string{`{metadata: {name: right}, spec: {effect: DenyRest, match: {signers: [SIGNER], access: [{verb: use}]}}}`}, want: "Leave"},
	{reason: "the label of a namespace", policies: []string{`{metadata: {name: labelled}, spec: {effect: DenyRest, match: {signers: [SIGNER], namespaces: {selector: {matchLabels: {kubernetes.io/metadata.name: default}}}}}}`}, as: "system:serviceaccount:default:default", want: "Deny"},
	{reason: "a node that is not known", policies: []string{`{metadata: {name: addresses}, spec: {effect: Limit, match: {signers: [SIGNER]}, rules: [{name: node, expression: "node.ips.size() > 0"}]}}`}, as: "system:node:n1", want: "Wait"},
	{reason: "in the shadow", policies: []string{`{metadata: {name: shadow}, spec: {effect: Limit, mode: Shadow, match: {signers: [SIGNER]}, certificate: {names: {dns: {zones: [shop.example.com]}}}}}`, allowAny}, foreign: true, want: "Approve"},
	{reason: "excepted", policies: []string{limitShop, `{kind: CertificatePolicyException, metadata: {name: exception}, spec: {policies: [limit], items: [certificate.names.dns],
		match: {signers: [SIGNER], requesters: {users: [alice]}}, reason: migration, notAfter: NOTAFTER}}`}, foreign: true, want: "Leave"},
	{reason: "said in few words", policies: []string{`{metadata: {name: terse}, spec: {effect: Limit, disclosure: Reason, match: {signers: [SIGNER]}, certificate: {names: {dns: {zones: [shop.example.com]}}}}}`}, foreign: true, want: "Deny"},
	{reason: "a lifetime to which nobody holds the signer", policies: []string{`{metadata: {name: lifetime}, spec: {effect: Limit, match: {signers: [SIGNER]}, certificate: {lifetime: {max: 24h}}}}`}, want: "Deny"},
	{reason: "a lifetime that the signer keeps", signer: signerName, policies: []string{`{metadata: {name: lifetime}, spec: {effect: Limit, match: {signers: [SIGNER]}, certificate: {lifetime: {max: 24h}}}}`}, want: "Leave"},
	{reason: "a kubelet that a built-in policy allows", signer: kubeletSigner, kubelet: true, as: "system:bootstrap:abcdef", policies: []string{denyRest}, want: "Approve"},
	{reason: "the origin", policies: []string{`{metadata: {name: origin}, spec: {effect: DenyRest, match: {signers: [SIGNER], origins: [Direct]}}}`}, want: "Deny"},
	{reason: "a node that is known", policies: []string{`{metadata: {name: addresses}, spec: {effect: Limit, match: {signers: [SIGNER]}, rules: [{name: node, expression: "node.metadata.name == 'n1'"}]}}`}, as: "system:node:n2", want: "Deny"},
	{reason: "the key of a first request", policies: []string{`{metadata: {name: keys}, spec: {effect: Limit, match: {kinds: [CertificateSigningRequest], signers: [SIGNER]}, certificate: {keys: {reuse: Require}}}}`}, want: "Leave"},
	{reason: "it renews nothing", policies: []string{`{metadata: {name: renews}, spec: {effect: Limit, match: {kinds: [CertificateSigningRequest], signers: [SIGNER]}, rules: [{name: new, expression: "!has(renews.notAfter)"}]}}`}, want: "Leave"},
}

const kubeletSigner = "kubernetes.io/kube-apiserver-client-kubelet"

// notDecided are the needs that no case has, and why.
var notDecided = map[string]string{
	"Owner":    "only CertificateRequests have one. It is found together with their origin",
	"Pod":      "whoever asks policies about a pod's request has found its objects before: controller/podsign, explain, and cli/policy/facts for check and replay",
	"Services": "as Pod",
	"Carried":  "it needs two orders of an ACME client: TestCarriedOver",
}
