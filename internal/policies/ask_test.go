package policies_test

import (
	"context"
	"errors"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/request"
)

// Whether the requester may use a policy is asked as approver-policy asks it; an
// answer that cannot be had decides nothing.
func TestAskForAccess(t *testing.T) {
	cr := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: cmv1.CertificateRequestSpec{
			IssuerRef: cmmeta.IssuerReference{Name: "own"}, Request: asked(t).PEM,
			Username: "alice", UID: "1", Groups: []string{"web"}, Extra: map[string][]string{"example.com/team": {"a", "b"}},
		},
	}
	compiled, errs := crp.Compile(&approverpolicy.CertificateRequestPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: approverpolicy.Spec{Selector: approverpolicy.Selector{IssuerRef: &approverpolicy.IssuerSelector{}}},
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var reviews []authorizationv1.SubjectAccessReviewSpec
	facts := policies.Facts{Access: func(_ context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
		reviews = append(reviews, policies.AccessReview(who, what))
		return false, errors.New("no answer")
	}}
	r := request.FromCertificateRequest(cr)
	ruling := facts.Ask(t.Context(), &r, policies.RequestPolicies{compiled})
	if ruling == nil || ruling.Err == nil {
		t.Errorf("%+v", ruling)
	}
	want := []authorizationv1.SubjectAccessReviewSpec{crp.AccessReview(cr, "all")}
	if diff := cmp.Diff(want, reviews, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reviews (-want +got):\n%s", diff)
	}
	if facts.Ask(t.Context(), &r, nil) != nil {
		t.Error("policies are asked that are not enforced")
	}
}
