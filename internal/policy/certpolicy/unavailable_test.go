package certpolicy_test

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// TestInvalidPolicies: a policy that is not valid does not allow, and holds up
// what it is about instead of denying it for good.
func TestInvalidPolicies(t *testing.T) {
	const badRule = `rules: [{name: r, expression: "nonsense"}]`
	bad := func(effect, match, rest string) string {
		return `{effect: ` + effect + `, match: {` + match + `}, ` + rest + `}`
	}
	usages := `certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}}`
	alice, bob := `signers: ["*"], requesters: {users: [alice]}`, `signers: ["*"], requesters: {users: [bob]}`
	badMatch := `signers: [example.com/web], requesters: {users: [a*b]}`
	for _, tc := range []struct {
		reason   string
		policies map[string]string
		want     v1alpha1.DecisionOutcome
	}{
		{"a Limit", map[string]string{"p": bad("Limit", alice, badRule), "everything": everything}, "Wait"},
		{"a Limit for others", map[string]string{"p": bad("Limit", bob, badRule), "everything": everything}, "Approve"},
		{"a Limit that says nothing sensible outside of match, for others", map[string]string{"p": bad("Limit", bob, "mode: Enforce, disclosure: None"), "everything": everything}, "Approve"},
		{"a Limit beside one that is violated", map[string]string{"p": bad("Limit", alice, badRule), "q": `{effect: Limit, match: {signers: ["*"]}, ` + nothing + `}`}, "Deny"},
		{"a Limit with a bad match", map[string]string{"p": bad("Limit", badMatch, "mode: Enforce"), "everything": everything}, "Wait"},
		{"a Limit with a bad match, for other signers", map[string]string{"p": bad("Limit", strings.Replace(badMatch, "web", "other", 1), "mode: Enforce"), "everything": everything}, "Approve"},
		{"a Limit with a bad match, for other kinds", map[string]string{"p": bad("Limit", badMatch+", kinds: [CertificateRequest]", "mode: Enforce"), "everything": everything}, "Approve"},
		{"a Limit of which it is not known for which signers", map[string]string{"p": bad("Limit", `signers: [example.org/x, web]`, "mode: Enforce"), "everything": everything}, "Wait"},
		{"a Limit without signers", map[string]string{"p": bad("Limit", `signers: []`, "mode: Enforce"), "everything": everything}, "Wait"},
		{"an Allow", map[string]string{"p": bad("Allow", alice, usages+", "+badRule)}, "Leave"},
		{"an Allow beside one that holds", map[string]string{"p": bad("Allow", alice, usages+", "+badRule), "everything": everything}, "Approve"},
		{"an Allow beside one that is violated", map[string]string{"p": bad("Allow", alice, usages+", "+badRule), "q": bad("Allow", alice, usages+", "+nothing)}, "Wait"},
		{"an Allow and a DenyRest", map[string]string{"p": bad("Allow", alice, usages+", "+badRule), "rest": `{effect: DenyRest, match: {signers: ["*"]}}`}, "Wait"},
		{"an Allow for others and a DenyRest", map[string]string{"p": bad("Allow", bob, usages+", "+badRule), "rest": `{effect: DenyRest, match: {signers: ["*"]}}`}, "Deny"},
		{"a DenyRest", map[string]string{"p": bad("DenyRest", alice, usages)}, "Wait"},
		{"a DenyRest beside an Allow that holds", map[string]string{"p": bad("DenyRest", alice, usages), "everything": everything}, "Approve"},
		{"in Shadow", map[string]string{"p": bad("Limit", alice, "mode: Shadow, "+badRule), "everything": everything}, "Approve"},
		{"Off", map[string]string{"p": bad("Limit", badMatch, "mode: 'Off'"), "everything": everything}, "Approve"},
		{"of no known effect", map[string]string{"p": bad("Refuse", alice, badRule)}, "Wait"},
	} {
		var policies []*v1alpha1.CertificatePolicy
		for name, spec := range tc.policies {
			policies = append(policies, policy(t, name, spec))
		}
		s := certpolicy.NewSet(policies, nil)
		d := decide(t, s, of(csrs))
		if invalid(s, "p") == nil {
			t.Errorf("%s: the policy is valid", tc.reason)
		}
		if d.Outcome != tc.want {
			t.Errorf("%s: %s, want %s", tc.reason, brief(d), tc.want)
		}
		if d.Outcome == v1alpha1.OutcomeWait && (d.Reason != certpolicy.ReasonUnavailable || d.Message != "certificate policy p is not valid: requests wait until it is corrected") {
			t.Errorf("%s: %s, %s", tc.reason, d.Reason, d.Message)
		}
		if c := considered(t, d, "p"); c.Applies && !strings.HasPrefix(c.Because, "the policy is not valid: ") {
			t.Errorf("%s: %+v", tc.reason, c)
		}
	}
}

// invalid returns why a policy is not valid.
func invalid(s *certpolicy.Set, name string) error {
	for _, p := range s.Policies() {
		if p.Name() == name {
			return p.Err()
		}
	}
	return nil
}
