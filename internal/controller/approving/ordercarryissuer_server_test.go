package approving_test

import (
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// The approvals of CertificateRequests count for later orders as well.
func TestCarriedOverByIssuer(t *testing.T) {
	w := acmetest.New(t, alone.Start(t), carrying, func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
		e.Spec.Profiles[0].Signer, e.Spec.Profiles[0].Issuer = nil, &v1alpha1.AcmeIssuer{Group: "cert-manager.io", Kind: "Issuer", Name: "ca"}
	})
	as := func(config *rest.Config) client.Client {
		c, err := client.New(config, client.Options{Scheme: w.Objects.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	carol := "carol-" + w.Namespace
	w.Server.Grant(t, carol,
		rbacv1.PolicyRule{Verbs: []string{"get", "update"}, APIGroups: []string{"cert-manager.io"}, Resources: []string{"certificaterequests", "certificaterequests/status"}},
		rbacv1.PolicyRule{Verbs: []string{"approve"}, APIGroups: []string{"cert-manager.io"}, Resources: []string{"signers"}, ResourceNames: []string{"issuers.cert-manager.io/" + w.Namespace + ".ca"}})
	who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
	web, person := as(w.Server.As(t, who.Username, who.Groups...)), as(w.Server.Login(t, carol))
	order := func() (*v1alpha1.AcmeOrder, *cmv1.CertificateRequest) {
		o := w.Order(w.Preauthorized("a"))
		w.Finalize(o)
		cr, err := acmeorder.CertificateRequest(o, w.Account, &w.Endpoint.Spec.Profiles[0], 12*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return o, cr
	}
	first, cr := order()
	if err := web.Create(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	cr.Status.Conditions = append(cr.Status.Conditions, cmv1.CertificateRequestCondition{Type: cmv1.CertificateRequestConditionApproved, Status: cmmeta.ConditionTrue, Reason: "Reviewed", Message: "fine"})
	if err := person.Status().Update(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	sealed := ""
	for _, c := range policies.ConditionsOf(cr) {
		if s := quorum.SealedIn(c); s != "" {
			sealed = s
		}
	}
	if sealed == "" {
		t.Fatalf("the approval is not recorded: %+v", cr.Status.Conditions)
	}
	later, next := order()
	first.Status = *acmeorder.RecordRequest(first, cr.UID, time.Now())
	first.Status = *acmeorder.RecordApproval(first, v1alpha1.AcmeOrderApproval{By: carol, Time: metav1.Now(), Sealed: sealed, CarriedTo: []string{later.Name}}, time.Now())
	w.UpdateStatus(first)
	later.Status.CarryFrom = first.Name
	w.UpdateStatus(later)
	if err := web.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	later.Status = *acmeorder.RecordRequest(later, next.UID, time.Now())
	w.UpdateStatus(later)
	apitest.Eventually(t, "the later request is approved", func() bool {
		if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(next), next); err != nil {
			t.Fatal(err)
		}
		for _, c := range next.Status.Conditions {
			if c.Type == cmv1.CertificateRequestConditionApproved {
				return c.Reason == acmeorder.ReasonCarriedOver
			}
		}
		return false
	})
}
