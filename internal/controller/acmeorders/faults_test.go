package acmeorders_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/controller/acmeorders"
	"github.com/certplane/certplane/internal/run/server"
)

var errInjected = errors.New("the connection is lost")

// faults makes one write fail: before it is stored, or after that, so that only the
// answer is lost.
type faults struct {
	mu     sync.Mutex
	writes int // since the last reset
	fails  int // the number of the write that fails; 0 for none
	after  bool
	// refuses has no request made.
	refuses bool
	// gate, if not nil, has to be closed before an order is read; asked has the names of
	// the orders that the controller wanted to read.
	gate  chan struct{}
	asked sync.Map
}

func (f *faults) refuse(all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuses = all
}

func (f *faults) create(do func() error) error {
	f.mu.Lock()
	refuses := f.refuses
	f.mu.Unlock()
	if refuses {
		return errInjected
	}
	return f.write(do)
}

func (f *faults) reset(fails int, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes, f.fails, f.after = 0, fails, after
}

func (f *faults) write(do func() error) error {
	f.mu.Lock()
	f.writes++
	fails, after := f.writes == f.fails, f.after
	f.mu.Unlock()
	if fails && !after {
		return errInjected
	}
	if err := do(); err != nil || !fails {
		return err
	}
	return errInjected
}

func (f *faults) wrap(cfg *rest.Config, options client.Options) (client.Client, error) {
	inner, err := client.NewWithWatch(cfg, options)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, isOrder := o.(*v1alpha1.AcmeOrder); isOrder && f.gate != nil {
				f.asked.Store(key.Name, true)
				<-f.gate
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.create(func() error { return c.Create(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return f.write(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
	}), nil
}

// Whichever write of an order fails, before or after it is stored, the order ends
// valid, with one request and one certificate. An order costs two writes of the
// controller: its request, and what became of it.
func TestEachWriteFails(t *testing.T) {
	// The request has its certificate at once: nothing has to be noted in between.
	world := acmetest.New(t, apitest.Start(t, apitest.IssueOnCreate, func(c *server.Config) { c.Controllers = append(c.Controllers, "-"+acmeorders.Name) }))
	world.AutoApprove()
	f := &faults{}
	runWith(t, world, f, nil)
	for n := range 5 {
		for _, after := range []bool{false, true} {
			f.reset(n, after)
			o := world.Order(world.Preauthorized("a"))
			world.Finalize(o)
			o = world.Ended(o)
			what := fmt.Sprintf("write %d fails, stored %v", n, after)
			if o.Status.State != v1alpha1.AcmeOrderValid {
				t.Fatalf("%s: the order is %+v", what, o.Status)
			}
			if f.writes != 2 && n == 0 {
				t.Errorf("an order costs %d writes", f.writes)
			}
			list := &certificatesv1.CertificateSigningRequestList{}
			if err := world.Objects.List(t.Context(), list, client.MatchingLabels{v1alpha1.AcmeOrderLabel: o.Name}); err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != 1 || list.Items[0].UID != o.Status.Request.UID || len(list.Items[0].Status.Certificate) == 0 {
				t.Errorf("%s: the order names %+v, and there are %d requests", what, o.Status.Request, len(list.Items))
			}
		}
	}
}

// runWith runs the controller with clients whose writes can fail.
func runWith(t *testing.T, w *acmetest.World, f *faults, clock clock.PassiveClock) {
	t.Helper()
	admin := w.Server.Admin(t)
	mgr, err := ctrl.NewManager(admin, ctrl.Options{Scheme: w.Objects.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	own, err := f.wrap(admin, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	r, err := acmeorders.NewWith(mgr, acmeorders.Config{API: admin, Client: own, Clock: clock, Versions: kinds.ServerResourcesForGroupVersionWithContext}, f.wrap)
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(r); err != nil {
		t.Fatal(err)
	}
	apitest.Work(t, mgr)
}
