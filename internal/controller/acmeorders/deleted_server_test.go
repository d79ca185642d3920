package acmeorders_test

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/controller/acmeorders"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/run/server"
)

// Who deletes an order before its denial is seen does not keep an earlier approval alive,
// in whichever order both come.
func TestDeniedAndDeleted(t *testing.T) {
	w := acmetest.New(t, apitest.Start(t, func(c *server.Config) { c.Controllers = append(c.Controllers, "-"+acmeorders.Name) }),
		func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
			e.Spec.Approval.CarryOver.Duration = time.Hour
		})
	f := &faults{gate: make(chan struct{})}
	runWith(t, w, f, nil)
	who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
	web, admin := apitest.Client(t, w.Server.As(t, who.Username, who.Groups...)), apitest.Client(t, w.Server.Admin(t))
	// waiting returns an order whose request waits. The controller waits, too: it cannot read it.
	waiting := func(account *v1alpha1.AcmeAccount) (*v1alpha1.AcmeOrder, *certificatesv1.CertificateSigningRequest) {
		o := w.OrderOf(account, w.Preauthorized("a"))
		w.Finalize(o)
		csr, err := acmeorder.SigningRequest(o, account, &w.Endpoint.Spec.Profiles[0], 12*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		csr = apitest.Create(t, web, csr)
		o.Status = *acmeorder.RecordRequest(o, csr.UID, time.Now())
		w.UpdateStatus(o)
		return o, csr
	}
	approved := func(account *v1alpha1.AcmeAccount) *v1alpha1.AcmeOrder {
		o, _ := waiting(account)
		o.Status = *acmeorder.RecordApproval(o, v1alpha1.AcmeOrderApproval{By: "carol", Time: metav1.Now(), Sealed: "sealed"}, time.Now())
		w.UpdateStatus(o)
		return o
	}
	remove := func(o *v1alpha1.AcmeOrder) {
		if err := w.Objects.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	other := w.NewAccount()
	first, ofOther := approved(w.Account), approved(other)
	o, csr := waiting(w.Account)
	apitest.Decide(t, admin, csr, certificatesv1.CertificateDenied)
	apitest.Eventually(t, "the controller knows the order", func() bool { _, asked := f.asked.Load(o.Name); return asked })
	remove(o)
	close(f.gate)
	w.Until(first, "says that another was denied", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Approval.Denied != nil })

	if ofOther = w.Until(ofOther, "is there", func(*v1alpha1.AcmeOrder) bool { return true }); ofOther.Status.Approval.Denied != nil {
		t.Error("the denial ends what approvals of another account count for")
	}
	o, csr = waiting(other)
	remove(o)
	denied, err := admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, apitest.With(csr, certificatesv1.CertificateDenied), metav1.UpdateOptions{})
	if err != nil || denied == nil {
		return // the request of the deleted order is cleaned up
	}
	w.Until(ofOther, "says that another was denied", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Approval.Denied != nil })
}
