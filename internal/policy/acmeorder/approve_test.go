package acmeorder_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestApproval(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(a *acmeorder.Approval)
		want   string
	}{
		{"all is as it was", nil, ""},
		{"another request with the same content", func(a *acmeorder.Approval) { a.Request.UID = "copy" }, "UID"},
		{"the order names no UID", func(a *acmeorder.Approval) { a.Order.Status.Request.UID, a.Request.UID = "", "" }, "UID"},
		{"the order is valid", func(a *acmeorder.Approval) { a.Order.Status.State = "valid" }, "the order is valid"},
		{"a proof has expired", func(a *acmeorder.Approval) { a.Order.Status.Authorizations[0].Expires = moment(now.Add(-time.Hour)) }, "expired"},
		{"a proof was deactivated", func(a *acmeorder.Approval) { a.Order.Status.Authorizations[0].State = "deactivated" }, "deactivated"},
		{"a proof is for another name", func(a *acmeorder.Approval) { a.Order.Status.Authorizations[0].Identifier.Value = "b.corp.example" }, "is not for"},
		{"proofs are missing", func(a *acmeorder.Approval) { a.Order.Status.Authorizations = nil }, "no authorizations"},
		{"another account", func(a *acmeorder.Approval) { a.Account.Account = account(); a.Account.Account.Name = "bob" }, "another endpoint or account"},
		{"the account is gone", func(a *acmeorder.Approval) { a.Account.Account = nil }, "another endpoint or account"},
		{"the account is revoked", func(a *acmeorder.Approval) { a.Account.Account.Spec.Decision = "Revoked" }, "account revoked"},
		{"the account is deactivated", func(a *acmeorder.Approval) { a.Account.Account.Status.State = "deactivated" }, "deactivated"},
		{"the ServiceAccount is gone", func(a *acmeorder.Approval) { a.Account.ServiceAccountGone = true }, "ServiceAccount is gone"},
		{"the account waits", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.Admission = "Approval" })
		}, "approve the account"},
		{"the profile is gone", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles = e.Spec.Profiles[1:] })
		}, "no profile"},
		{"the endpoint is narrower", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Identifiers.DNS.Deny = []string{"a.corp.example"} })
		}, "not allowed"},
		{"the signer is another", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles[0].Signer.Name = "corp.example/others" })
		}, "signer"},
		{"the profile has other types of keys", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles[0].KeyTypes = []string{"RSA2048"} })
		}, "no keys of type"},
		{"the key is compromised", func(a *acmeorder.Approval) { a.Keys.Blocked = func(string) bool { return true } }, "compromised"},
		{"another requester", func(a *acmeorder.Approval) { a.Request.Requester.Username = "mallory" }, "requester"},
		{"another certificate request", func(a *acmeorder.Approval) { a.Request.PEM = []byte("x") }, "certificate request"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e := endpoint(t)
			o := finalized(t, e, newKey(t), dns("a.corp.example")...)
			a := acmeorder.Approval{Order: o, Request: stored(t, e, o, nil), Endpoint: e, Account: facts(account(), nil)}
			if tc.change != nil {
				tc.change(&a)
			}
			if err := a.Check(now); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
