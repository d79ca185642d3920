package acmeclean_test

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

var shared apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &shared) }

// Orders end with their account: the revoked one, and that of a revoked external key.
func TestOrdersOfEndedAccounts(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	ready := w.Order(w.Preauthorized("a"))
	w.Change(w.Account, func() { w.Account.Spec.Decision = v1alpha1.AcmeDecisionRevoked })
	o := w.Ended(ready)
	if o.Status.Error == nil || o.Status.Error.Type != rfc8555.ProblemUnauthorized || o.Status.Authorizations[0].State != rfc8555.StateRevoked {
		t.Errorf("the order is %+v", o.Status)
	}
	apitest.Eventually(t, "the account says so", func() bool {
		return w.Objects.Get(t.Context(), client.ObjectKeyFromObject(w.Account), w.Account) == nil &&
			w.Account.Status.State == v1alpha1.AcmeAccountRevoked && w.Account.Status.Ended != nil
	})

	w.Account = w.NewAccount()
	ready = w.Order(w.Preauthorized("b"))
	w.Change(w.Key, func() { w.Key.Spec.Revoked = true })
	if o := w.Ended(ready); o.Status.State != v1alpha1.AcmeOrderInvalid {
		t.Errorf("the order is %+v", o.Status)
	}
}

// The request of an order that somebody has deleted does not wait any longer.
func TestRequestOfDeletedOrder(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	o = w.Until(o, "has a request", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Request != nil && o.Status.Request.UID != "" })
	if err := w.Objects.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.Gone(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: acmeorder.RequestName(o)}}, o.Status.Request.UID)
}

// What has had its time is ended, made smaller or deleted, whatever of it the cache
// has.
func TestTimes(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	long := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: time.Now().Add(-d)} }

	expired, old := w.Order(w.Preauthorized("a")), w.Order(w.Preauthorized("b"))
	expired.Status.Expires = long(2 * time.Minute)
	w.UpdateStatus(expired)
	if o := w.Ended(expired); o.Status.State != v1alpha1.AcmeOrderInvalid {
		t.Errorf("the expired order is %+v", o.Status)
	}
	old.Status.State, old.Status.Ended = v1alpha1.AcmeOrderInvalid, long(25*time.Hour)
	w.UpdateStatus(old)
	w.Gone(old, old.UID)

	issued := w.Order(w.Preauthorized("c"))
	w.Finalize(issued)
	issued = w.Ended(issued)
	chain := issued.Status.Certificate.Chain
	issued.Status.Ended = long(25 * time.Hour)
	w.UpdateStatus(issued)
	smaller := w.Until(issued, "has lost its request", func(o *v1alpha1.AcmeOrder) bool { return len(o.Status.CSR) == 0 })
	if smaller.Status.Certificate.Chain != chain {
		t.Error("the chain is gone too early, or was changed")
	}
	smaller.Status.Ended = long(8 * 24 * time.Hour)
	w.UpdateStatus(smaller)
	w.Until(issued, "has lost its chain", func(o *v1alpha1.AcmeOrder) bool {
		return o.Status.Certificate.Chain == "" && o.Status.Certificate.Serial != ""
	})
	// What stays until the certificate ends, with all that the API keeps of an object, and
	// after controllers had time to write it again.
	other := w.Order(w.Preauthorized("d"))
	w.Finalize(other)
	w.Ended(other)
	left := w.Server.Stored(t, "/registry/"+v1alpha1.GroupName+"/acmeorders/"+issued.Namespace+"/"+issued.Name)
	t.Logf("%d bytes are left of the order", len(left))
	if len(left) > 7<<8 {
		t.Errorf("%d bytes are left of the order: %s", len(left), left)
	}
}
