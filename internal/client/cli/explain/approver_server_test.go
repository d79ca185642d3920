package explain_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/grant"
	"github.com/certplane/certplane/internal/client/cli/target"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

// Users with exactly the rights of "certplane grant approve" see all that decides about a
// request.
func TestApproversSeeWhatTheyDecideUnder(t *testing.T) {
	w := startIssuing(t, func(c *server.Config) { c.Controllers = []string{"*", "-certificaterequests-approver"} })
	w.create(t, newIssuer("self", cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}))
	w.request(t, "web", cmmeta.IssuerReference{Name: "self"})
	const signer = "example.com/web"
	apitest.Create(t, apitest.Client(t, w.Admin(t)), apitest.NewCSR(t, "mail", signer, pki.Subject{CommonName: "mail"}, apitest.NewKey(t)))
	for user, signerName := range map[string]string{"bob": signer, "ben": "issuers.cert-manager.io/default.self"} {
		w.approver(t, user, signerName)
	}
	signing, _ := ask[explain.Explanation](t, verb.Run, w.As(t, "bob"), "mail", time.Now())
	issuing, _ := ask[explain.RequestExplanation](t, verb.CertificateRequest, w.As(t, "ben"), "web", time.Now())
	for of, checks := range map[string][]explain.Check{"bob": signing.Checks, "ben": issuing.Checks} {
		for _, c := range checks {
			if strings.Contains(c.Message, "you may not") {
				t.Errorf("%s is told: %s: %s", of, c.Name, c.Message)
			}
		}
	}
}

// approver grants a user the right to approve for a signer, as the command line does.
func (w issuing) approver(t *testing.T, user, signerName string) {
	t.Helper()
	to, err := target.Parse(rights.TaskApprove, signerName, "", "")
	if err != nil {
		t.Fatal(err)
	}
	objects := grant.Objects(to, []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}})
	w.create(t, objects...)
	for _, object := range objects {
		w.untilGranted(t, user, object)
	}
}

// untilGranted waits until a user has the rights of a role.
func (w issuing) untilGranted(t *testing.T, user string, object client.Object) {
	t.Helper()
	var rules []rbacv1.PolicyRule
	switch role := object.(type) {
	case *rbacv1.ClusterRole:
		rules = role.Rules
	case *rbacv1.Role:
		rules = role.Rules
	}
	for _, rule := range rules {
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		w.UntilAllowed(t, user, nil, authorizationv1.ResourceAttributes{
			Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
			Namespace: object.GetNamespace(), Name: strings.Join(rule.ResourceNames, ""),
		})
	}
}
