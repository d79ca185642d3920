package controllermanager

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/process/collector"
	"github.com/certplane/certplane/internal/rights"
)

// OtherLease is the Lease of another program that does the same work as some controllers.
type OtherLease struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Controllers start when the process holds the Lease. An entry is the name of a
	// controller or of a set. Default: those that do the work of the Lease's program.
	Controllers []string `json:"controllers,omitempty"`
	// Times are the times of the election. Default: those of the Lease's program.
	Times LeaseTimes `json:"-"`
}

// String returns NAMESPACE/NAME.
func (l OtherLease) String() string { return l.Namespace + "/" + l.Name }

// Waiting returns the names of the controllers that start when the Lease is held.
func (l OtherLease) Waiting() []string {
	if len(l.Controllers) > 0 {
		return Selection(l.Controllers).expanded()
	}
	return rights.WaitFor(l.Name)
}

// Validate returns an error for the first invalid value, with the name of its field, which
// begins with path.
func (l OtherLease) Validate(path string) error {
	if problems := validation.IsDNS1123Label(l.Namespace); len(problems) > 0 {
		return fmt.Errorf("%s.namespace: %q cannot be a namespace: %s", path, l.Namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(l.Name); len(problems) > 0 {
		return fmt.Errorf("%s.name: %q cannot be the name of a Lease: %s", path, l.Name, problems[0])
	}
	for _, name := range l.Controllers {
		if known := rights.Choices(); !slices.Contains(known, name) {
			return fmt.Errorf("%s.controllers: %q is not one of %s", path, name, strings.Join(known, ", "))
		}
	}
	if len(l.Waiting()) == 0 {
		return fmt.Errorf("%s.controllers: missing: name the controllers that wait for the Lease %s", path, l)
	}
	return nil
}

// times returns the times of the election: by default, those of cert-manager 1.21 and
// trust-manager 0.24.
func (l OtherLease) times() LeaseTimes {
	lease, renew, retry := 60*time.Second, 40*time.Second, 15*time.Second
	if strings.HasPrefix(l.Name, "trust-manager-") {
		lease, renew, retry = 15*time.Second, 10*time.Second, 2*time.Second
	}
	in := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return cmp.Or(l.Times, LeaseTimes{LeaseDuration: in(lease), RenewDeadline: in(renew), RetryPeriod: in(retry)})
}

// Interlock makes controllers wait until their process holds the Lease of another program.
type Interlock struct {
	of    OtherLease
	lock  resourcelock.Interface
	waits prometheus.Gauge
	// held is closed when the lease is held. leading is set before, and ends when it is lost.
	held    chan struct{}
	leading context.Context
	// working is read-locked by each controller that works. Locking it waits for their end.
	working sync.RWMutex
}

// NewInterlocks adds interlocks for these leases to the manager of p, for Config. They take
// the leases when the process leads, and release them when ctx has ended. own is the
// process's own lease, NAMESPACE/NAME. All processes with the same one hold the other leases
// under its name: the one that leads takes them over at once from one that was killed.
func NewInterlocks(ctx context.Context, p Process, leases []OtherLease, api *rest.Config, own string) ([]*Interlock, error) {
	waits := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "certplane_waits_for_lease", Help: "1 while controllers of this process wait for a Lease of another program, NAMESPACE/NAME.",
	}, []string{"lease"})
	if err := collector.Share(p.Metrics, &waits); err != nil {
		return nil, fmt.Errorf("registering the metric of leases: %w", err)
	}
	var all []*Interlock
	for _, of := range leases {
		lease := Lease{Namespace: of.Namespace, Name: of.Name, Times: of.times(), API: api, Identity: own}
		lock, err := lease.lock()
		if err != nil {
			return nil, err
		}
		i := &Interlock{of: of, lock: kept{lock, ctx}, waits: waits.WithLabelValues(of.String()), held: make(chan struct{})}
		if err := p.Manager.Add(i); err != nil {
			return nil, fmt.Errorf("adding the election for the lease %s: %w", of, err)
		}
		all = append(all, i)
	}
	return all, nil
}

// kept is a lock that is not released before process ends: until then, another process may
// lead, and hold the lease under the same name.
type kept struct {
	resourcelock.Interface
	process context.Context
}

// Update implements resourcelock.Interface.
func (l kept) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.process.Err() == nil {
		return nil
	}
	return l.Interface.Update(ctx, record)
}

// Start takes the lease and holds it until ctx ends and the controllers have stopped. It
// returns an error that IsLostLease knows if the lease is lost before.
func (i *Interlock) Start(ctx context.Context) error {
	log, times := klog.FromContext(ctx).WithValues("lease", i.of.String(), "controllers", i.of.Waiting()), i.of.times()
	var once sync.Once
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: i.lock, Name: i.of.String(), ReleaseOnCancel: true,
		LeaseDuration: times.LeaseDuration.Duration, RenewDeadline: times.RenewDeadline.Duration, RetryPeriod: times.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				i.leading = leading
				i.waits.Set(0)
				close(i.held)
				log.Info("Holds the lease of another program: the controllers that do its work start")
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != "" && holder != i.lock.Identity() {
					once.Do(func() {
						log.Info("Another program holds the lease: the controllers that do its work wait for it", "holder", holder)
					})
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the election for the lease %s: %w", i.of, err)
	}
	i.waits.Set(1)
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(holding) }()
	select {
	case <-ended:
		return fmt.Errorf("%s: %s", lostLease, i.of)
	case <-ctx.Done():
	}
	i.working.Lock() // until the controllers have stopped
	defer i.working.Unlock()
	release()
	<-ended
	return nil
}

// interlocked is a manager whose controllers wait. Caches, and what runs without the
// process's own lease, do not.
type interlocked struct {
	ctrl.Manager
	by *Interlock
}

// Add implements manager.Manager.
func (m interlocked) Add(r manager.Runnable) error {
	if leads, ok := r.(manager.LeaderElectionRunnable); ok && !leads.NeedLeaderElection() {
		return m.Manager.Add(r)
	}
	return m.Manager.Add(waiter{r, m.by})
}

// waiter runs something when the lease is held, and until it is lost.
type waiter struct {
	manager.Runnable
	by *Interlock
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (waiter) NeedLeaderElection() bool { return true }

// Warmup fills the caches of controllers before they start.
func (w waiter) Warmup(ctx context.Context) error {
	if warm, ok := w.Runnable.(interface{ Warmup(context.Context) error }); ok {
		return warm.Warmup(ctx)
	}
	return nil
}

// Start implements manager.Runnable.
func (w waiter) Start(parent context.Context) error {
	select {
	case <-w.by.held:
	case <-parent.Done():
		return nil
	}
	w.by.working.RLock()
	defer w.by.working.RUnlock()
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	defer context.AfterFunc(w.by.leading, cancel)()
	if ctx.Err() != nil {
		return nil
	}
	return w.Runnable.Start(ctx)
}
