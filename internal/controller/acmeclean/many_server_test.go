package acmeclean_test

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/controller/acmeclean"
	"github.com/certplane/certplane/internal/run/server"
)

var manyFlag = flag.Int("acme-orders", 150, "how many orders TestManyOrders has cleaned up")

// What the store may have of one order when it was issued, and of one whose chain has had
// its time: with all that the API keeps of an object.
const (
	mostIssued = 12 << 10
	mostLeft   = 7 << 8
)

// Eight days after so many orders, those whose certificates have expired are gone, and the
// others are small.
func TestManyOrders(t *testing.T) {
	w := acmetest.New(t, apitest.Start(t, func(c *server.Config) { c.Controllers = append(c.Controllers, "-"+acmeclean.Name) }))
	w.AutoApprove()
	model := w.Order(w.Preauthorized("a"))
	w.Finalize(model)
	model = w.Ended(model)
	if model.Status.State != v1alpha1.AcmeOrderValid {
		t.Fatalf("the order is %+v", model.Status)
	}
	var group sync.WaitGroup
	const writers = 8
	for i := range writers {
		group.Go(func() {
			for n := i; n < *manyFlag; n += writers {
				place(w, model, n)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	prefix := "/registry/" + v1alpha1.GroupName + "/acmeorders/" + w.Namespace + "/"
	before, bytes := w.Server.StoredBelow(t, prefix)
	if before != *manyFlag+1 || bytes > before*mostIssued {
		t.Errorf("%d orders have %d bytes", before, bytes)
	}
	cleanAt(t, w, time.Now().Add(8*24*time.Hour))
	list := &v1alpha1.AcmeOrderList{}
	apitest.Eventually(t, "all orders are cleaned up", func() bool {
		if err := w.Objects.List(t.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(list.Items, func(o v1alpha1.AcmeOrder) bool {
			return o.Status.Certificate.Chain != "" || len(o.Status.CSR) > 0 || o.Status.Certificate.Serial == ""
		})
	})
	left, after := w.Server.StoredBelow(t, prefix)
	if left != *manyFlag/2 || after > left*mostLeft {
		t.Errorf("%d orders are left, with %d bytes", left, after)
	}
	t.Logf("%d orders had %d bytes each; %d are left, with %d each", before, bytes/before, left, after/left)
}

// place stores an order as another one was issued. Every second certificate is valid for
// a month.
func place(w *acmetest.World, model *v1alpha1.AcmeOrder, n int) {
	o := model.DeepCopy()
	o.ObjectMeta = *model.ObjectMeta.DeepCopy()
	o.Name, o.UID, o.ResourceVersion, o.ManagedFields = acmetest.ID(), "", "", nil
	status := o.Status.DeepCopy()
	status.Certificate.Serial = fmt.Sprintf("%032x", n)
	if n%2 == 1 {
		status.Certificate.NotAfter.Time = status.Certificate.NotAfter.Add(30 * 24 * time.Hour)
	}
	if err := w.Objects.Create(w.Context(), o); err != nil {
		w.Errorf("creating order %d: %v", n, err)
		return
	}
	o.Status = *status
	if err := w.Objects.Status().Update(w.Context(), o); err != nil {
		w.Errorf("issuing order %d: %v", n, err)
	}
}

// cleanAt runs the cleaner at a time until the test ends.
func cleanAt(t *testing.T, w *acmetest.World, at time.Time) {
	t.Helper()
	admin := w.Server.Admin(t)
	mgr, err := ctrl.NewManager(admin, ctrl.Options{Scheme: w.Objects.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	clock := testclock.NewFakePassiveClock(at)
	if err := acmeclean.Add(mgr, acmeclean.Config{Client: w.Objects, Versions: kinds.ServerResourcesForGroupVersionWithContext, Clock: clock}); err != nil {
		t.Fatal(err)
	}
	apitest.Work(t, mgr)
}
