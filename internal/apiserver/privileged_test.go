package apiserver

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// Limits of space hold for what the server writes for tenants, and not for what it writes
// for itself.
func TestPrivileged(t *testing.T) {
	account := func(name string) *user.DefaultInfo {
		return &user.DefaultInfo{Name: "system:serviceaccount:" + rights.ServeNamespace + ":" + name, Groups: []string{"system:serviceaccounts"}}
	}
	masters := []string{user.SystemPrivilegedGroup}
	shop, alice := tenant.OfNamespace("shop"), fairshare.Tenant{Class: tenant.ClassUser, Name: "alice"}
	for _, tt := range []struct {
		reason string
		who    *user.DefaultInfo
		inside bool
		owner  fairshare.Tenant
		want   bool
	}{
		{"an administrator", &user.DefaultInfo{Name: "root", Groups: masters}, false, shop, true},
		{"a tenant", &user.DefaultInfo{Name: "alice"}, false, shop, false},
		{"a controller from elsewhere", account(rights.AnswerRequests.Account), false, shop, false},
		{"the server", &user.DefaultInfo{Name: user.APIServerUser, Groups: masters}, true, shop, true},
		{"a controller, for a namespace", account(rights.AnswerRequests.Account), true, shop, false},
		{"a controller, for a user", account(rights.Approve.Account), true, alice, false},
		{"a controller, for an administrator", account(rights.Approve.Account), true, tenant.Exempt, true},
		{"a controller, what belongs to nobody", account(rights.AnswerRequests.Account), true, fairshare.Tenant{}, true},
		{"a controller, in the namespace of the server", account(rights.AnswerRequests.Account), true, tenant.OfNamespace(rights.ServeNamespace), true},
		{"the ACME server, for an account", account(rights.ACMEServerAccount), true, shop, false},
		{"the CAs of the server in a namespace", account(rights.Publish.Account), true, shop, true},
	} {
		ctx := apirequest.WithUser(t.Context(), tt.who)
		if tt.inside {
			ctx = context.WithValue(ctx, insideKey{}, true)
		}
		if got := isPrivileged(ctx, tt.owner); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.reason, got, tt.want)
		}
	}
}
