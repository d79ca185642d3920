package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func policy(name string, effect v1alpha1.PolicyEffect, change ...func(*v1alpha1.CertificatePolicy)) *v1alpha1.CertificatePolicy {
	p := &v1alpha1.CertificatePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.CertificatePolicySpec{Effect: effect, Match: v1alpha1.PolicyMatch{Signers: []string{"example.com/web"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func kinds(kinds ...v1alpha1.RequestKind) func(*v1alpha1.CertificatePolicy) {
	return func(p *v1alpha1.CertificatePolicy) { p.Spec.Match.Kinds = kinds }
}

func signers(names ...string) func(*v1alpha1.CertificatePolicy) {
	return func(p *v1alpha1.CertificatePolicy) { p.Spec.Match.Signers = names }
}

func ofShop(p *v1alpha1.CertificatePolicy) {
	p.Spec.Match.Namespaces = &v1alpha1.NamespaceMatch{Names: []string{"shop"}}
}

func twoPeople(p *v1alpha1.CertificatePolicy) {
	p.Spec.Match.Kinds = []v1alpha1.RequestKind{csr} // pods' requests cannot wait
	p.Spec.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}}
}

func broken(p *v1alpha1.CertificatePolicy) {
	p.Spec.Match.Conditions = []v1alpha1.MatchCondition{{Name: "x", Expression: "1 +"}}
}

func shadow(p *v1alpha1.CertificatePolicy) { p.Spec.Mode = v1alpha1.PolicyShadow }

const (
	csr, pod, cr = v1alpha1.CertificateSigningRequests, v1alpha1.PodCertificateRequests, v1alpha1.CertificateRequests
	issuer       = "clusterissuers.cert-manager.io/internal"
)

// rest returns what becomes of requests of a kind for a signer.
func rest(t *testing.T, s *state, name string, kind v1alpha1.RequestKind) Requests {
	t.Helper()
	for _, signer := range s.report(now).Signers {
		for _, r := range signer.Requests {
			if signer.Name == name && r.Kind == kind {
				return r
			}
		}
	}
	t.Fatalf("nothing is said of %s for %s", kind, name)
	return Requests{}
}

func TestRest(t *testing.T) {
	const web = "example.com/web"
	tests := []struct {
		reason   string
		policies []*v1alpha1.CertificatePolicy
		signer   string
		kind     v1alpha1.RequestKind
		want     string
		depends  bool
	}{
		{"an Allow says nothing about the rest", []*v1alpha1.CertificatePolicy{policy("a", v1alpha1.PolicyAllow)}, web, csr, "left to people", false},
		{"a DenyRest for all", []*v1alpha1.CertificatePolicy{policy("rest", v1alpha1.PolicyDenyRest)}, web, csr, "denied by rest", false},
		{"a DenyRest for all signers", []*v1alpha1.CertificatePolicy{policy("rest", v1alpha1.PolicyDenyRest, signers("*"))}, "*", csr, "denied by rest", false},
		{"a DenyRest in Shadow", []*v1alpha1.CertificatePolicy{policy("rest", v1alpha1.PolicyDenyRest, shadow)}, web, csr, "left to people", false},
		{"a DenyRest for some", []*v1alpha1.CertificatePolicy{policy("rest", v1alpha1.PolicyDenyRest, ofShop)}, web, csr, "denied by rest where it matches; others left to people", false},
		{"a DenyRest that is not valid", []*v1alpha1.CertificatePolicy{policy("rest", v1alpha1.PolicyDenyRest, broken)}, web, csr, "held up by rest, which is not valid where it matches; others left to people", false},
		{"a DenyRest of another kind", []*v1alpha1.CertificatePolicy{policy("rest", v1alpha1.PolicyDenyRest, kinds(pod)), policy("a", v1alpha1.PolicyAllow)}, web, csr, "left to people", false},
		{"a DenyRest outranks people", []*v1alpha1.CertificatePolicy{policy("p", v1alpha1.PolicyLimit, twoPeople), policy("rest", v1alpha1.PolicyDenyRest, kinds(csr))}, web, csr, "denied by rest", false},
		{"a Limit with people", []*v1alpha1.CertificatePolicy{policy("p", v1alpha1.PolicyLimit, twoPeople)}, web, csr, "left to 2 people, required by p", false},
		{"pods", []*v1alpha1.CertificatePolicy{policy("a", v1alpha1.PolicyAllow)}, web, pod, "signed, because pods' requests need no approval", false},
		{"an issuer", []*v1alpha1.CertificatePolicy{policy("a", v1alpha1.PolicyAllow, signers(issuer))}, issuer, cr, "approved by builtin:approve-all, or left to people", true},
		{"kubelets", nil, "kubernetes.io/kube-apiserver-client-kubelet", csr, "of kubelets approved by builtin:selfnodeclient or builtin:nodeclient, all others left to people", true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			r := rest(t, &state{policies: tc.policies}, tc.signer, tc.kind)
			if r.Rest != tc.want || (r.RestIf != "") != tc.depends {
				t.Errorf("got %q, depends on %q", r.Rest, r.RestIf)
			}
		})
	}
}

// What was approved without a policy shows what becomes of the rest.
func TestSeen(t *testing.T) {
	s := &state{
		policies: []*v1alpha1.CertificatePolicy{policy("a", v1alpha1.PolicyAllow, signers("clusterissuers.cert-manager.io/*"))},
		approvedByAll: map[string]Seen{
			issuer: {"shop/web-1", metav1.NewTime(now.Add(-time.Hour))}, "clusterissuers.cert-manager.io/b": {"shop/b-1", metav1.NewTime(now)},
			"issuers.cert-manager.io/shop.own": {"shop/own-1", metav1.NewTime(now.Add(time.Hour))},
		},
	}
	if r := rest(t, s, "clusterissuers.cert-manager.io/*", cr); r.Seen == nil || r.Seen.Request != "shop/b-1" {
		t.Errorf("seen %v", r.Seen)
	}
}

func TestStages(t *testing.T) {
	ready := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	web := v1alpha1.Signer{Spec: v1alpha1.SignerSpec{SignerName: "example.com/web", Requests: []v1alpha1.RequestKind{csr, pod}}}
	opened := *web.DeepCopy()
	opened.Status.Conditions = ready
	all := []*v1alpha1.CertificatePolicy{policy("a", v1alpha1.PolicyAllow)}
	const serve, cluster = "v1.36.0+certplane", "v1.36.0"
	tests := []struct {
		reason string
		state  state
		signer string
		kind   v1alpha1.RequestKind
		want   string
	}{
		{"serve, a Signer", state{version: serve, signers: []v1alpha1.Signer{opened}}, "example.com/web", csr, "create, approve, sign"},
		{"a Signer whose CA is not open", state{version: serve, signers: []v1alpha1.Signer{web}}, "example.com/web", csr, "create, approve, sign?"},
		{"no Signer", state{version: serve}, "example.com/web", csr, "create, approve, sign?"},
		{"pods", state{version: serve, signers: []v1alpha1.Signer{opened}}, "example.com/web", pod, "sign"},
		{"kubelets are never refused", state{version: serve}, "kubernetes.io/kubelet-serving", csr, "approve, sign?"},
		{"another API server, webhooks not readable", state{version: cluster}, "example.com/web", csr, "create?, approve?, sign?"},
		{"without webhooks", state{version: cluster, webhooks: map[string]bool{}}, "example.com/web", csr, "sign?"},
		{"with webhooks", state{version: cluster, webhooks: map[string]bool{"validating requests.certplane.dev": true, "validating approvals.certplane.dev": true}}, "example.com/web", csr, "create, approve, sign?"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			tc.state.policies = all
			if got := stagesText(rest(t, &tc.state, tc.signer, tc.kind).EnforcedAt); got != tc.want {
				t.Errorf("enforced at %s, want %s", got, tc.want)
			}
		})
	}
}

func TestWaiting(t *testing.T) {
	s := &state{}
	r := request.Request{Kind: csr, Name: "ca", SignerName: "example.com/ca"}
	awaiting := quorum.Condition{Type: quorum.AwaitingApproval, Message: "1 of 2 approvals: 1 more of security"}
	s.wait(r, metav1.NewTime(now), []quorum.Condition{awaiting})
	s.wait(r, metav1.NewTime(now), []quorum.Condition{awaiting, {Type: "Approved"}})
	s.wait(r, metav1.NewTime(now), nil)
	want := []Waiting{{Kind: csr, Name: "ca", Signer: "example.com/ca", Since: metav1.NewTime(now), Message: awaiting.Message}}
	if diff := cmp.Diff(want, s.waiting); diff != "" {
		t.Error(diff)
	}
}

func TestText(t *testing.T) {
	guarded := policy("guarded", v1alpha1.PolicyLimit, kinds(csr), signers("example.com/ca"), func(p *v1alpha1.CertificatePolicy) {
		p.Spec.Protection = &v1alpha1.PolicyProtection{People: v1alpha1.ProtectingPeople{Count: 3, From: []v1alpha1.PeopleFrom{{Groups: []string{"pki"}, Count: 1}, {Groups: []string{"security"}, Count: 2}}}}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PolicyProposed, Status: metav1.ConditionTrue, Message: "proposed by alice"}}
	})
	s := &state{
		version:  "v1.36.0+certplane",
		policies: []*v1alpha1.CertificatePolicy{policy("a", v1alpha1.PolicyAllow, kinds(csr)), policy("next", v1alpha1.PolicyAllow, kinds(csr), shadow, func(p *v1alpha1.CertificatePolicy) { p.Spec.Replaces = "a" }), guarded},
		exceptions: []*v1alpha1.CertificatePolicyException{{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1alpha1.CertificatePolicyExceptionSpec{
			Policies: []string{"a"}, Items: []string{"certificate.names.dns"}, Reason: "moving",
			Match:    v1alpha1.PolicyMatch{Signers: []string{"*"}, Namespaces: &v1alpha1.NamespaceMatch{Names: []string{"shop"}}},
			NotAfter: metav1.NewTime(now.Add(72 * time.Hour)),
		}}},
		waiting: []Waiting{{Kind: cr, Namespace: "shop", Name: "ca", Signer: issuer, Since: metav1.NewTime(now.Add(-time.Hour)), Message: "0 of 2 approvals"}},
		foreign: "pod-1 (Lease cert-manager/policy.cert-manager.io)",
	}
	text := s.report(now).text(now)
	for _, want := range []string{
		"example.com/web\n  policy  a     Allow  Enforce       not ready: the controller \"policies\" has not processed it yet\n  policy  next  Allow  Shadow for a  not ready",
		"  CertificateSigningRequest  rest         left to people\n                             enforced at  create, approve, sign?\n",
		"has not processed it yet; changes need 3 people: 1 of pki and 2 of security\n",
		"Proposed changes\n  CertificatePolicy  guarded  proposed by alice\n",
		"Waiting for people\n  CertificateRequest  shop/ca  clusterissuers.cert-manager.io/internal  0 of 2 approvals  60m ago\n",
		"Exceptions\n  x  of a  certificate.names.dns  ends 2026-11-27T12:00:00Z, in 3 days  moving\n",
		"approver-policy also runs: pod-1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
}
