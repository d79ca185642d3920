package acmeorders_test

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/controller/acmeorders"
	"github.com/certplane/certplane/internal/run/server"
)

// An order waits until it expires: for the API to take its request, and then for a person.
func TestOrdersWait(t *testing.T) {
	w := acmetest.New(t, apitest.Start(t, func(c *server.Config) { c.Controllers = append(c.Controllers, "-"+acmeorders.Name) }))
	clock, f := testingclock.NewFakePassiveClock(time.Now()), &faults{}
	f.refuse(true)
	runWith(t, w, f, clock)
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	for range 2 { // for longer than a request that may have been cleaned up is made
		clock.SetTime(clock.Now().Add(25 * time.Minute))
		o = w.Until(o, "says again which request is to be made", func(o *v1alpha1.AcmeOrder) bool {
			return !o.Status.Request.Named.Time.Before(clock.Now().Truncate(time.Second)) || o.Status.State != v1alpha1.AcmeOrderProcessing
		})
		if o.Status.State != v1alpha1.AcmeOrderProcessing {
			t.Fatalf("the order is %+v", o.Status)
		}
	}
	f.refuse(false)
	o = w.Until(o, "has a request", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Request.UID != "" })
	clock.SetTime(clock.Now().Add(6 * time.Hour))
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := w.Objects.Get(t.Context(), client.ObjectKey{Name: o.Status.Request.Name}, csr); err != nil {
		t.Fatal(err)
	}
	apitest.Decide(t, apitest.Client(t, w.Server.Admin(t)), csr, certificatesv1.CertificateApproved)
	if o = w.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid {
		t.Errorf("the order is %+v", o.Status)
	}
}
