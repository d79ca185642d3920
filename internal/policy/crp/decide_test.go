package crp_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
)

// Each row is the selector of one policy, and a request in the namespace shop,
// whose label team is web. want is the part that does not match.
func TestSelector(t *testing.T) {
	step := cmmeta.IssuerReference{Name: "ca", Kind: "Step", Group: "example.com"}
	tests := []struct {
		reason, selector string
		issuer           cmmeta.IssuerReference
		want             crp.Part
	}{
		{"all issuers", `{issuerRef: {}}`, step, ""},
		{"all namespaces", `{namespace: {}}`, step, ""},
		{"neither, as in a file", `{}`, step, ""},
		{"issuer", `{issuerRef: {name: "c*", kind: Step, group: "*.com"}}`, step, ""},
		{"its name", `{issuerRef: {name: "d*", kind: Step}}`, step, crp.PartIssuerName},
		{"its kind", `{issuerRef: {name: ca, kind: "*Issuer"}}`, step, crp.PartIssuerKind},
		{"its group", `{issuerRef: {group: cert-manager.io}}`, step, crp.PartIssuerGroup},
		{"its kind by default", `{issuerRef: {kind: Issuer, group: cert-manager.io}}`, cmmeta.IssuerReference{Name: "ca"}, ""},
		{"an empty pattern", `{issuerRef: {kind: ""}}`, cmmeta.IssuerReference{Name: "ca"}, crp.PartIssuerKind},
		{"one of the names", `{namespace: {matchNames: [a, "sh*"]}}`, step, ""},
		{"none of the names", `{namespace: {matchNames: [a, shops]}}`, step, crp.PartNames},
		{"labels", `{namespace: {matchLabels: {team: web}}}`, step, ""},
		{"another label", `{namespace: {matchLabels: {team: web, tier: "1"}}}`, step, crp.PartLabels},
		{"no labels", `{namespace: {matchLabels: {}}}`, step, ""},
		{"name but not labels", `{namespace: {matchNames: ["*"], matchLabels: {team: db}}}`, step, crp.PartLabels},
		{"labels but not name", `{namespace: {matchNames: [a], matchLabels: {team: web}}}`, step, crp.PartNames},
		{"issuer but not namespace", `{issuerRef: {}, namespace: {matchNames: [a]}}`, step, crp.PartNames},
		{"all", `{issuerRef: {name: ca}, namespace: {matchNames: [shop], matchLabels: {team: web}}}`, step, ""},
	}
	facts := everybody
	facts.NamespaceLabels = func() (map[string]string, error) { return map[string]string{"team": "web"}, nil }
	for _, tc := range tests {
		p := policy(t, "p", "selector: "+tc.selector)
		result, err := crp.Decide([]*crp.Policy{p}, asks{issuer: tc.issuer}.request(t), facts)
		if err != nil {
			t.Errorf("%s: %v", tc.reason, err)
			continue
		}
		var got crp.Part
		if result.Nearest != nil {
			got = result.Nearest.Miss.Part
		}
		if got != tc.want || (result.Outcome == v1alpha1.OutcomeApprove) != (tc.want == "") {
			t.Errorf("%s: %s, misses %q, want %q", tc.reason, result.Outcome, got, tc.want)
		}
	}
}

const (
	permits = `{selector: {issuerRef: {}}}`
	refuses = `{selector: {issuerRef: {}}, allowed: {dnsNames: {values: [], required: true}}}`
	other   = `{selector: {issuerRef: {name: other}}}`
	plugin  = `{selector: {issuerRef: {}}, plugins: {rego: {}}}`
)

// Each policy is "name state spec". State + is Ready, - is not ready, ? has no
// condition, ! may not be used by the requester.
func TestResult(t *testing.T) {
	const refusal = "spec.allowed.dnsNames.required: Required value: true"
	const ignored = "Request is not applicable for any policy so ignoring"
	tests := []struct {
		reason   string
		policies []string
		outcome  v1alpha1.DecisionOutcome
		message  string
		event    crp.Event
	}{
		{"no policy", nil, v1alpha1.OutcomeLeave, "", crp.Event{"Normal", "Unprocessed", "Synced", ignored}},
		{"approved", []string{"a + " + permits}, v1alpha1.OutcomeApprove, `Approved by CertificateRequestPolicy: "a"`, crp.Event{"Normal", "Approved", "Synced", `Approved by CertificateRequestPolicy: "a"`}},
		{"denied", []string{"a + " + refuses}, v1alpha1.OutcomeDeny, "No policy approved this request: [a: " + refusal + "]", crp.Event{"Warning", "Denied", "Synced", "No policy approved this request: [a: " + refusal + "]"}},
		{"denied by two, in the order of names", []string{"b + " + refuses, "a + " + refuses}, v1alpha1.OutcomeDeny, "No policy approved this request: [a: " + refusal + "] [b: " + refusal + "]",
			crp.Event{"Warning", "Denied", "Synced", "No policy approved this request: [a: " + refusal + "] [b: " + refusal + "]"}},
		{"approved by one of two", []string{"a + " + refuses, "b + " + permits}, v1alpha1.OutcomeApprove, `Approved by CertificateRequestPolicy: "b"`, crp.Event{"Normal", "Approved", "Synced", `Approved by CertificateRequestPolicy: "b"`}},
		{"approved by two, the first of the names", []string{"b + " + permits, "a + " + permits}, v1alpha1.OutcomeApprove, `Approved by CertificateRequestPolicy: "a"`, crp.Event{"Normal", "Approved", "Synced", `Approved by CertificateRequestPolicy: "a"`}},
		{"for others", []string{"a + " + other}, v1alpha1.OutcomeLeave, "", crp.Event{"Normal", "Unprocessed", "Synced",
			ignored + `: the nearest is "a": spec.selector.issuerRef.name: the request has "ca", the policy is for "other"`}},
		{"may not be used", []string{"a ! " + permits, "b + " + other}, v1alpha1.OutcomeLeave, "", crp.Event{"Normal", "Unprocessed", "Synced",
			ignored + `: the nearest is "a": access: user "ann" must be allowed to use certificaterequestpolicies.policy.cert-manager.io "a" in namespace "shop"`}},
		{"not ready", []string{"a ! " + permits, "b - " + permits}, v1alpha1.OutcomeLeave, "", crp.Event{"Normal", "Unprocessed", "Synced",
			ignored + `: the nearest is "b": status: the policy is not ready`}},
		{"not ready, and another refuses", []string{"a - " + permits, "b + " + refuses}, v1alpha1.OutcomeDeny, "No policy approved this request: [b: " + refusal + "]", crp.Event{"Warning", "Denied", "Synced", "No policy approved this request: [b: " + refusal + "]"}},
		{"not reconciled, and another refuses", []string{"a + " + refuses, "b ? " + permits}, v1alpha1.OutcomeWait, "", crp.Event{"Normal", "Unprocessed", "Synced",
			ignored + `: the nearest is "b": status: the policy has no Ready condition yet`}},
		{"not reconciled, and another approves", []string{"a + " + permits, "b ? " + permits}, v1alpha1.OutcomeApprove, `Approved by CertificateRequestPolicy: "a"`, crp.Event{"Normal", "Approved", "Synced", `Approved by CertificateRequestPolicy: "a"`}},
		{"not reconciled, for others", []string{"a + " + refuses, "b ? " + other}, v1alpha1.OutcomeDeny, "No policy approved this request: [a: " + refusal + "]", crp.Event{"Warning", "Denied", "Synced", "No policy approved this request: [a: " + refusal + "]"}},
		{"not reconciled, alone", []string{"a ? " + permits}, v1alpha1.OutcomeWait, "", crp.Event{"Normal", "Unprocessed", "Synced",
			ignored + `: the nearest is "a": status: the policy has no Ready condition yet`}},
		{"plugins, whatever the status says", []string{"a + " + plugin}, v1alpha1.OutcomeLeave, "", crp.Event{"Normal", "Unprocessed", "Synced",
			ignored + `: the nearest is "a": status: the policy has plugins, which do not exist here`}},
	}
	for _, tc := range tests {
		policies, facts := parse(t, tc.policies)
		result, err := crp.Decide(policies, asks{issuer: cmmeta.IssuerReference{Name: "ca"}, username: "ann"}.request(t), facts)
		if err != nil {
			t.Errorf("%s: %v", tc.reason, err)
			continue
		}
		if result.Outcome != tc.outcome || result.Message != tc.message {
			t.Errorf("%s: %s %q", tc.reason, result.Outcome, result.Message)
		}
		if diff := cmp.Diff(tc.event, result.Event); diff != "" {
			t.Errorf("%s: %s", tc.reason, diff)
		}
		if got := result.Condition(); (got == cmv1.CertificateRequestConditionApproved) != (tc.outcome == v1alpha1.OutcomeApprove) || (got == "") != (tc.message == "") {
			t.Errorf("%s: condition %q", tc.reason, got)
		}
	}
}

// parse returns the policies and facts of a row of TestResult.
func parse(t *testing.T, rows []string) ([]*crp.Policy, crp.Facts) {
	t.Helper()
	facts, refused := everybody, map[string]bool{}
	var policies []*crp.Policy
	for _, row := range rows {
		parts := strings.SplitN(row, " ", 3)
		declared := object(t, parts[0], parts[2])
		switch parts[1] {
		case "-":
			declared.Status = ready(metav1.ConditionFalse)
		case "?":
			declared.Status = approverpolicy.Status{Conditions: []metav1.Condition{{Type: "Other", Status: metav1.ConditionTrue}}}
		case "!":
			refused[parts[0]] = true
		}
		compiled, _ := crp.Compile(declared)
		policies = append(policies, compiled)
	}
	facts.MayUse = func(name string) (bool, error) { return !refused[name], nil }
	return policies, facts
}

// Of several policies that do not apply, that is the nearest of which the fewest
// parts would have to be different.
func TestNearest(t *testing.T) {
	facts := everybody
	facts.MayUse = func(string) (bool, error) { return false, nil }
	specs := []string{
		`{selector: {issuerRef: {name: x, kind: y, group: z}}}`,
		`{selector: {issuerRef: {name: x}, namespace: {matchNames: [x]}}}`,
		`{selector: {namespace: {matchNames: [x]}}}`,
		`{selector: {namespace: {matchLabels: {a: b}}}}`,
		permits,
	}
	var policies []*crp.Policy
	for i, spec := range specs {
		name := string(rune('a' + i))
		policies = append([]*crp.Policy{policy(t, "1"+name, spec), policy(t, name, spec)}, policies...)
		result, err := crp.Decide(policies, asks{}.request(t), facts)
		if err != nil || result.Nearest.Policy != "1"+name || len(result.Considered) != 2*i+2 {
			t.Errorf("%s: nearest is %+v, %v", spec, result.Nearest, err)
		}
	}
}

// The order of policies makes no difference.
func TestOrder(t *testing.T) {
	policies, facts := parse(t, []string{"a + " + refuses, "b ? " + other, "c + " + permits, "d ! " + permits, "e - " + permits, "f + " + permits})
	cr := asks{}.request(t)
	want, err := crp.Decide(policies, cr, facts)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		random.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
		got, err := crp.Decide(policies, cr, facts)
		if err != nil || got.Outcome != want.Outcome || got.Message != want.Message || len(got.Considered) != len(want.Considered) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
}

// Facts are looked up only for policies that need them, and labels once.
func TestFacts(t *testing.T) {
	labelled := `{selector: {namespace: {matchLabels: {team: web}}}}`
	var asked []string
	facts := crp.Facts{
		NamespaceLabels: func() (map[string]string, error) {
			asked = append(asked, "labels")
			return map[string]string{"team": "web"}, nil
		},
		MayUse: func(name string) (bool, error) {
			asked = append(asked, name)
			return true, nil
		},
	}
	policies := []*crp.Policy{
		policy(t, "a", other), policy(t, "b", labelled), policy(t, "c", labelled), policy(t, "d", permits),
		policy(t, "e", `{selector: {issuerRef: {name: other}, namespace: {matchLabels: {team: web}}}}`),
	}
	if _, err := crp.Decide(policies, asks{}.request(t), facts); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"labels", "b", "c", "d"}, asked); diff != "" {
		t.Error(diff)
	}
	asked = nil
	if _, err := crp.Decide([]*crp.Policy{policies[0], policies[3], policies[4]}, asks{}.request(t), facts); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestFailures(t *testing.T) {
	labelled := func(labels string) string { return `{selector: {namespace: {matchLabels: ` + labels + `}}}` }
	broken := errors.New("the API is down")
	noLabels, noAccess := everybody, everybody
	noLabels.NamespaceLabels = func() (map[string]string, error) { return nil, broken }
	noAccess.MayUse = func(string) (bool, error) { return false, broken }
	for _, tc := range []struct {
		reason, policy string
		facts          crp.Facts
		want           string
	}{
		{"labels", labelled(`{a: b}`), noLabels, "CertificateRequestPolicy p: getting the labels of namespace shop: the API is down"},
		{"access", permits, noAccess, "CertificateRequestPolicy p: asking whether the requester may use it: the API is down"},
		{"labels that are none", labelled(`{a: "b/", "c/": d}`), everybody, "CertificateRequestPolicy p: reading spec.selector.namespace.matchLabels: "},
	} {
		result, err := crp.Decide([]*crp.Policy{policy(t, "p", tc.policy)}, asks{}.request(t), tc.facts)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || result.Outcome != "" {
			t.Errorf("%s: %+v, %v", tc.reason, result, err)
		}
	}
	want := crp.Event{"Warning", "EvaluationError", "SyncedFailed", "approver-policy failed to review the request and will retry"}
	if diff := cmp.Diff(want, crp.FailedEvent()); diff != "" {
		t.Error(diff)
	}
}

func TestAccessReview(t *testing.T) {
	cr := asks{username: "ann", groups: []string{"g"}}.request(t)
	cr.Spec.UID, cr.Spec.Extra = "u", map[string][]string{"k": {"v"}}
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "ann", Groups: []string{"g"}, UID: "u", Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "shop", Verb: "use", Group: "policy.cert-manager.io", Resource: "certificaterequestpolicies", Name: "p",
		},
	}
	if diff := cmp.Diff(want, crp.AccessReview(cr, "p")); diff != "" {
		t.Error(diff)
	}
}
