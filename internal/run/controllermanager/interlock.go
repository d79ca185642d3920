package controllermanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
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
	// Namespace and Name are those of the Lease.
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
	return rights.OtherLeaseOf(l.Name).Names()
}

// Validate returns an error for the first invalid value, with the name of its field, which
// begins with path.
func (l OtherLease) Validate(path string) error {
	switch problems := validation.IsDNS1123Label(l.Namespace); {
	case l.Namespace == "":
		return fmt.Errorf("%s.namespace: missing: set the namespace of the Lease", path)
	case len(problems) > 0:
		return fmt.Errorf("%s.namespace: %q cannot be a namespace: %s", path, l.Namespace, problems[0])
	case l.Name == "":
		return fmt.Errorf("%s.name: missing: set the name of the Lease, such as %s", path, rights.OtherLeases()[0].Name)
	}
	if problems := validation.IsDNS1123Subdomain(l.Name); len(problems) > 0 {
		return fmt.Errorf("%s.name: %q cannot be the name of a Lease: %s", path, l.Name, problems[0])
	}
	for _, name := range l.Controllers {
		if checkName(name) != nil {
			return fmt.Errorf("%s.controllers: %q is not one of %s", path, name, strings.Join(append(rights.Names(), rights.SetNames()...), ", "))
		}
	}
	if len(l.Waiting()) == 0 {
		return fmt.Errorf("%s.controllers: missing: name the controllers that wait for the Lease %s; those of %s are known", path, l, knownLeases())
	}
	return nil
}

// knownLeases lists the leases whose controllers are known.
func knownLeases() string {
	var names []string
	for _, l := range rights.OtherLeases() {
		if len(l.Controllers) > 0 {
			names = append(names, l.Name)
		}
	}
	return strings.Join(names, ", ")
}

// times returns the times of the election.
func (l OtherLease) times() LeaseTimes {
	if l.Times != (LeaseTimes{}) {
		return l.Times
	}
	of := rights.OtherLeaseOf(l.Name)
	in := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return LeaseTimes{LeaseDuration: in(of.LeaseDuration), RenewDeadline: in(of.RenewDeadline), RetryPeriod: in(of.RetryPeriod)}
}

// Interlock makes controllers wait until their process holds the Lease of another program
// that does the same work.
type Interlock struct {
	of    OtherLease
	lock  resourcelock.Interface
	waits prometheus.Gauge

	// held is closed when the lease is held. leading is set before, and ends when the lease
	// is lost.
	held    chan struct{}
	leading context.Context
	// working is locked for reading by each controller that works. The lease is released when
	// it can be locked.
	working sync.RWMutex
}

// NewInterlocks adds interlocks for these leases to the manager of p, for Config. They take
// the leases once the process leads, and read and write them through api. own is the
// process's own lease, NAMESPACE/NAME, or "" without one. The holder's identity begins with it.
func NewInterlocks(p Process, leases []OtherLease, api *rest.Config, own string) ([]*Interlock, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the name of this host: %w", err)
	}
	waits := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "certplane_waits_for_lease", Help: "1 while controllers of this process wait for a Lease of another program, NAMESPACE/NAME.",
	}, []string{"lease"})
	if err := collector.Share(p.Metrics, &waits); err != nil {
		return nil, fmt.Errorf("registering the metric of leases: %w", err)
	}
	waits.Reset() // an earlier manager of this process may have ended while it waited
	var all []*Interlock
	for _, of := range leases {
		lease := Lease{Namespace: of.Namespace, Name: of.Name, Times: of.times(), API: api}
		lease.Identity = strings.Join([]string{cmp.Or(own, "certplane"), host, string(uuid.NewUUID())}, "_")
		lock, err := lease.lock()
		if err != nil {
			return nil, err
		}
		i := &Interlock{of: of, lock: &inherited{Interface: lock, own: own}, waits: waits.WithLabelValues(of.String()), held: make(chan struct{})}
		if err := p.Manager.Add(i); err != nil {
			return nil, fmt.Errorf("adding the election for the lease %s: %w", of, err)
		}
		all = append(all, i)
	}
	return all, nil
}

// Start takes the lease and holds it until ctx ends and the controllers have stopped. It
// returns an error that IsLostLease knows if the lease is lost before.
func (i *Interlock) Start(ctx context.Context) error {
	log := klog.FromContext(ctx).WithValues("lease", i.of.String(), "controllers", i.of.Waiting())
	var once sync.Once
	times := i.of.times()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: i.lock, Name: i.of.String(), ReleaseOnCancel: true,
		LeaseDuration: times.LeaseDuration.Duration, RenewDeadline: times.RenewDeadline.Duration, RetryPeriod: times.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				i.leading = leading
				i.waits.Set(0)
				close(i.held)
				log.Info("The lease of the other program is held: its controllers work here from now on")
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != "" && holder != i.lock.Identity() {
					once.Do(func() {
						log.Info("Another program holds the lease: controllers that do the same work wait until it releases the lease", "holder", holder)
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
	go func() {
		defer close(ended)
		elector.Run(holding)
	}()
	select {
	case <-ended:
		return lostLeaseError{i.of.String()}
	case <-ctx.Done():
	}
	i.working.Lock() // until the controllers have stopped
	defer i.working.Unlock()
	release()
	<-ended
	return nil
}

// inherited is a lock that its process takes over at once from another process with the same
// own lease, such as one that was killed: that process works no longer, as this one leads.
type inherited struct {
	resourcelock.Interface
	// own is the process's own lease; "" if it has none, and inherits nothing.
	own string
	// holder is the holder as last read or written. taken is set once this process has held
	// the lease.
	holder string
	taken  bool
}

// Get implements resourcelock.Interface.
func (l *inherited) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.holder = record.HolderIdentity
	if l.own != "" && !l.taken && strings.HasPrefix(l.holder, l.own+"_") {
		record.HolderIdentity = l.Identity()
	}
	return record, raw, nil
}

// Create implements resourcelock.Interface.
func (l *inherited) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface. It does not release a lease that another process
// has taken over.
func (l *inherited) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		return nil
	}
	return l.wrote(record, l.Interface.Update(ctx, record))
}

func (l *inherited) wrote(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.holder, l.taken = record.HolderIdentity, true
	}
	return err
}

// covers reports whether a controller waits for the lease.
func (i *Interlock) covers(controller string) bool {
	return slices.Contains(i.of.Waiting(), controller)
}

// manager returns a manager whose controllers wait for the lease.
func (i *Interlock) manager(mgr ctrl.Manager) ctrl.Manager { return interlocked{mgr, i} }

// interlocked adds controllers that wait to a manager. Caches, and what runs without the
// process's own lease, do not wait.
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
	on *Interlock
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (waiter) NeedLeaderElection() bool { return true }

// Warmup fills what controllers watch before they start.
func (w waiter) Warmup(ctx context.Context) error {
	if warm, ok := w.Runnable.(interface{ Warmup(context.Context) error }); ok {
		return warm.Warmup(ctx)
	}
	return nil
}

// Start implements manager.Runnable.
func (w waiter) Start(parent context.Context) error {
	select {
	case <-w.on.held:
	case <-parent.Done():
		return nil
	}
	w.on.working.RLock()
	defer w.on.working.RUnlock()
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	defer context.AfterFunc(w.on.leading, cancel)()
	if ctx.Err() != nil {
		return nil
	}
	return w.Runnable.Start(ctx)
}

// lostLeaseError reports that the lease of another program is lost.
type lostLeaseError struct{ lease string }

func (e lostLeaseError) Error() string { return lostLease + ": " + e.lease }

// LostLease returns the lease of another program that was lost, as NAMESPACE/NAME, or "".
func LostLease(err error) string {
	var lost lostLeaseError
	errors.As(err, &lost)
	return lost.lease
}
