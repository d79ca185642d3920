package server

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/apiserver/authz"
)

// If an authorizer keeps a start from its work, the error names the authorizer,
// the account and what to change.
func TestUnfit(t *testing.T) {
	account := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:reader"}
	for _, tc := range []struct {
		reason  string
		verdict authz.Verdict
		want    []string
	}{
		{"a webhook denies", authz.Verdict{Decision: authorizer.DecisionDeny, By: `webhook "company"`, Reason: "not from here"},
			[]string{`webhook "company" denies the server's own account system:serviceaccount:kube-system:reader,`, "(not from here)", "put RBAC before it"}},
		{"a webhook is away and denies", authz.Verdict{Decision: authorizer.DecisionDeny, By: `webhook "company"`, Err: errors.New("connection refused")},
			[]string{`webhook "company" cannot be asked about the server's own account`, "connection refused"}},
		{"no authorizer allows", authz.Verdict{Decision: authorizer.DecisionNoOpinion},
			[]string{"no authorizer allows the server's own account", "Add the authorizer RBAC", "system:serviceaccounts:kube-system"}},
		{"no authorizer allows, and one is away", authz.Verdict{Decision: authorizer.DecisionNoOpinion, Reason: "RBAC: no such role", Err: errors.New("connection refused")},
			[]string{"no authorizer allows the server's own account", "(RBAC: no such role): connection refused"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := unfit(account, tc.verdict).Error()
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s: it does not say %q", got, want)
				}
			}
		})
	}
}
