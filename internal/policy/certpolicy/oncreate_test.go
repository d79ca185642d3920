package certpolicy_test

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

func TestIssuesOnCreate(t *testing.T) {
	const kubernetes, other = "kubernetes.io/kube-apiserver-client", "example.com/web"
	allow := func(approval string) string {
		return `{effect: Allow, match: {signers: ["*"], kinds: [CertificateSigningRequest]}, certificate: {usages: {allowed: [any]}}` + approval + `}`
	}
	for _, tc := range []struct {
		reason, spec             string
		wantKubernetes, wantElse bool
	}{
		{"the default", allow(""), false, true},
		{"the default of the mode Automatic", allow(", approval: {mode: Automatic}"), false, true},
		{"on", allow(", approval: {issueOnCreate: true}"), true, true},
		{"off", allow(", approval: {issueOnCreate: false}"), false, false},
		{"people", allow(", approval: {mode: People, people: {count: 2}}"), false, false},
		{"people, but not for renewals", allow(", approval: {mode: People, people: {count: 2}, renewals: Automatic}"), false, false},
		{"left to others", allow(", approval: {mode: Leave}"), false, false},
		{"a limit", `{effect: Limit, match: {signers: ["*"]}, certificate: {usages: {allowed: [any]}}}`, false, false},
		{"tried", allow(", mode: Shadow"), false, false},
	} {
		set := setOf(policy(t, "p", tc.spec))
		for signer, want := range map[string]bool{kubernetes: tc.wantKubernetes, other: tc.wantElse} {
			if got := set.IssuesOnCreate(v1alpha1.CertificateSigningRequests, signer); got != want {
				t.Errorf("%s: %s: %v, want %v", tc.reason, signer, got, want)
			}
		}
	}
	for _, spec := range []string{
		allow(", approval: {mode: Leave, issueOnCreate: true}"),
		allow(", approval: {mode: People, people: {count: 2}, issueOnCreate: false}"),
	} {
		if _, errs, _ := certpolicy.Compile(policy(t, "p", spec)); len(errs) != 1 || !strings.Contains(errs[0].Error(), "spec.approval.issueOnCreate") {
			t.Errorf("%s: %v", spec, errs)
		}
	}
}
