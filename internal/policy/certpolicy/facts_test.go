package certpolicy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// kubelet is the request of a kubelet for its serving certificate.
func kubelet(a *asked) {
	a.signer, a.user, a.groups = "kubernetes.io/kubelet-serving", "system:node:n1", []string{"system:nodes", "system:authenticated"}
	a.subject, a.dns, a.noLife = rdn("O", "system:nodes", "CN", "system:node:n1"), []string{"n1.nodes.example.com"}, true
}

func nodeN1(addresses ...corev1.NodeAddress) func(*asked) {
	return func(a *asked) {
		a.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}, Status: corev1.NodeStatus{Addresses: addresses}}
	}
}

var n1Hostname = corev1.NodeAddress{Type: corev1.NodeHostName, Address: "n1.nodes.example.com"}

// TestFacts: what needs a fact that is not known yet waits, and is refused when
// the patience with the request is over.
func TestFacts(t *testing.T) {
	allow := func(certificate string) string {
		return `{effect: Allow, match: {signers: ["*"]}, certificate: {subject: {commonName: {}, organizations: {}}, names: {dns: ` + certificate + `}, usages: {allowed: [digital signature, server auth]}}}`
	}
	matching := func(match string) string {
		return `{effect: Allow, match: {signers: ["*"], ` + match + `}, certificate: {names: {dns: {}}, usages: {allowed: [digital signature, server auth]}}}`
	}
	late := func(a *asked) { a.created = now.Add(-2 * time.Minute) }
	unknownNamespace := func(a *asked) { a.namespaceUnknown = true }
	unknownPod := func(a *asked) { a.podUnknown = true }
	unknownOrigin := func(a *asked) { a.originUnknown = true }
	unknownOwner := func(a *asked) { a.ownerUnknown = true }
	noPatience := func(a *asked) { a.patience = 0 }
	uncreated := func(a *asked) { a.created = time.Time{} }
	const fact = " FactMissing"
	tests := []struct {
		reason string
		spec   string
		kind   v1alpha1.RequestKind
		ask    []func(*asked)
		want   string
	}{
		{"a node has addresses", allow(`{expression: node.hostnames}`), csrs, fns(kubelet, nodeN1(n1Hostname)), "Approve"},
		{"a node has none yet", allow(`{expression: node.hostnames}`), csrs, fns(kubelet, nodeN1()),
			"Wait; p certificate.names.dns.expression wants nodes/n1 status.addresses"},
		{"a node never has any", allow(`{expression: node.hostnames}`), csrs, fns(kubelet, nodeN1(), late), "Deny; p certificate.names.dns.expression" + fact},
		{"a node has none, and nobody loses patience", allow(`{expression: node.hostnames}`), csrs, fns(kubelet, nodeN1(), late, noPatience),
			"Wait; p certificate.names.dns.expression wants nodes/n1 status.addresses"},
		{"the request is not stored yet", allow(`{expression: node.hostnames}`), csrs, fns(kubelet, nodeN1(), uncreated),
			"Wait; p certificate.names.dns.expression wants nodes/n1 status.addresses"},
		{"only other fields of a node are read", allow(`{expression: "node.metadata.labels.zone == 'a' ? ['n1.nodes.example.com'] : []"}`), csrs, fns(kubelet, nodeN1()), "Approve"},
		{"a node is not known yet", allow(`{expression: node.hostnames}`), csrs, fns(kubelet, func(a *asked) { a.nodeUnknown = true }),
			"Wait; p certificate.names.dns.expression wants nodes/n1"},
		{"there is no such node", allow(`{expression: node.hostnames}`), csrs, fns(kubelet), "Deny; p certificate.names.dns.expression ExpressionFailed dnsNames[0]=n1.nodes.example.com"},
		{"the requester is no node", allow(`{expression: node.hostnames}`), csrs, fns(func(a *asked) { a.nodeUnknown = true }),
			"Deny; p certificate.names.dns.expression ExpressionFailed dnsNames[0]=www.shop.example.com"},

		{"a namespace is not known yet", matching(`namespaces: {selector: {matchLabels: {team: shop}}}`), crs, fns(unknownNamespace), "Wait; p match wants namespaces/shop"},
		{"a namespace never is", matching(`namespaces: {selector: {matchLabels: {team: shop}}}`), crs, fns(unknownNamespace, late), "Deny; p match" + fact},
		{"another part does not match", matching(`namespaces: {names: [ops], selector: {matchLabels: {team: shop}}}`), crs, fns(unknownNamespace), "Leave"},
		{"another part that comes later does not match", matching(`origins: [Direct], requesters: {users: [bob]}`), crs, fns(unknownOrigin), "Leave"},
		{"a label in a pattern", allow(`{patterns: ["www.{namespaceLabel:team}.example.com"]}`), crs, fns(unknownNamespace), "Wait; p certificate.names.dns wants namespaces/shop"},
		{"a label in a pattern that is not needed", allow(`{patterns: ["www.{namespaceLabel:team}.example.com", "www.*.example.com"]}`), crs, fns(unknownNamespace), "Approve"},
		{"a label in an excluded pattern", allow(`{excluded: {patterns: ["www.{namespaceLabel:team}.example.com"]}}`), crs, fns(unknownNamespace), "Wait; p certificate.names.dns.excluded wants namespaces/shop"},

		{"a pod is not known yet", allow(`{expression: "[pod.metadata.name + '.shop.example.com', 'www.shop.example.com']"}`), pcrs, fns(unknownPod), "Wait; p certificate.names.dns.expression wants the pod of web-7"},
		{"a pod's label", allow(`{zones: ["{podLabel:app}.example.com"]}`), pcrs, fns(unknownPod), "Wait; p certificate.names.dns wants the pod of web-7"},
		{"a pod is known", allow(`{zones: ["{podLabel:team}.example.com"]}`), pcrs, fns(func(a *asked) { a.podLabels = map[string]string{"team": "shop"} }), "Approve"},

		{"an origin", matching(`origins: [Direct]`), csrs, fns(unknownOrigin), "Wait; p match wants origin"},
		{"an origin in a condition", matching(`conditions: [{name: a, expression: "request.origin == 'Direct'"}]`), csrs, fns(unknownOrigin), "Wait; p match wants origin"},
		{"an origin that does not matter", matching(`conditions: [{name: a, expression: "request.origin == 'Direct' || requester.username == 'alice'"}]`), csrs, fns(unknownOrigin), "Approve"},
		{"an origin that does not matter, in the other order", matching(`conditions: [{name: a, expression: "requester.username == 'alice' || request.origin == 'Direct'"}]`), csrs, fns(unknownOrigin), "Approve"},
		{"an owner", matching(`conditions: [{name: a, expression: "owner.metadata.name == 'web'"}]`), crs, fns(unknownOwner), "Wait; p match wants the owner of the request"},
		{"an owner of a kind that has none", matching(`conditions: [{name: a, expression: "!has(owner.metadata)"}]`), csrs, fns(unknownOwner), "Approve"},
		{"an owner that is not there", matching(`conditions: [{name: a, expression: "!has(owner.metadata)"}]`), crs, nil, "Approve"},
		{"an owner that is not there, unasked", matching(`conditions: [{name: a, expression: "owner.metadata.name == 'web'"}]`), crs, nil, "Leave"},
		{"access", matching(`access: [{verb: use}]`), csrs, nil, "Wait; p match wants access use certificatepolicies/p"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			d := decide(t, set(t, map[string]string{"p": tc.spec}), of(tc.kind).but(tc.ask...))
			if got := brief(d); got != tc.want {
				t.Errorf("%s, want %s\n%s", got, tc.want, d.Message)
			}
			if d.Outcome == v1alpha1.OutcomeWait && (d.Reason != certpolicy.ReasonFactMissing || d.Message == "" || d.Policy == nil) {
				t.Errorf("the requester is told %q, %q by %v", d.Reason, d.Message, d.Policy)
			}
		})
	}
}

func fns(changes ...func(*asked)) []func(*asked) { return changes }

// TestOpenMatch: a policy that is perhaps not about the request denies nothing,
// whatever its conditions are.
func TestOpenMatch(t *testing.T) {
	const selector = `namespaces: {selector: {matchLabels: {team: ops}}}`
	for _, tc := range []struct {
		reason, effect string
		late           time.Duration
		want           string
	}{
		{"a Limit", "Limit", 0, "Wait; p match wants namespaces/shop"},
		{"a Limit, later", "Limit", time.Hour, "Deny; p match FactMissing"},
		{"an Allow", "Allow", 0, "Wait; p match wants namespaces/shop"},
		{"an Allow, later", "Allow", time.Hour, "Deny; p match FactMissing"},
		{"a DenyRest", "DenyRest", 0, "Wait; p match wants namespaces/shop"},
		{"a DenyRest, later", "DenyRest", time.Hour, "Deny; p effect NotAllowed"},
	} {
		conditions := ", certificate: {names: {dns: {zones: [example.org]}}, usages: {allowed: [any, digital signature]}}"
		if tc.effect == "DenyRest" {
			conditions = ""
		}
		s := set(t, map[string]string{"p": `{effect: ` + tc.effect + `, match: {signers: ["*"], ` + selector + `}` + conditions + `}`})
		d := decide(t, s, of(crs).but(func(a *asked) { a.namespaceUnknown, a.created = true, now.Add(-tc.late) }))
		if got := brief(d); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
		}
	}
}
