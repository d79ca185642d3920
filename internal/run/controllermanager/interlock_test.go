package controllermanager

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// memoryLease is a lease that several locks share.
type memoryLease struct {
	released chan struct{} // is closed when the lease is released
	mu       sync.Mutex    // guards record
	record   *resourcelock.LeaderElectionRecord
}

func (m *memoryLease) holder() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.HolderIdentity
}

// memoryLock is a lock of the lease for an identity.
type memoryLock struct {
	*memoryLease
	identity string
}

func (l memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return nil, nil, errors.NewNotFound(schema.GroupResource{Resource: "leases"}, "l")
	}
	record := *l.record
	return &record, []byte(record.HolderIdentity + record.RenewTime.String()), nil
}

func (l memoryLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record = &record
	if record.HolderIdentity == "" {
		close(l.released)
	}
	return nil
}

func (memoryLock) RecordEvent(string) {}
func (l memoryLock) Identity() string { return l.identity }
func (memoryLock) Describe() string   { return "memory" }

// The lease is released only after the controllers that wait for it have stopped, and only
// when the process ends: before, another process may lead and hold it under the same name.
func TestInterlockReleasesLast(t *testing.T) {
	for _, tc := range []struct {
		processEnds bool
		want        string
	}{{true, ""}, {false, "own"}} {
		lease := &memoryLease{released: make(chan struct{})}
		process, end := context.WithCancel(t.Context())
		i := &Interlock{
			of: OtherLease{Namespace: "n", Name: "l", Controllers: []string{"clean"}}, lock: kept{memoryLock{lease, "own"}, process},
			waits: prometheus.NewGauge(prometheus.GaugeOpts{Name: "w"}), held: make(chan struct{}),
		}
		ctx, stop := context.WithCancel(t.Context())
		started, atEnd := make(chan struct{}), ""
		w := waiter{manager.RunnableFunc(func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			select { // a release while it works would come at once
			case <-lease.released:
			case <-time.After(50 * time.Millisecond):
			}
			atEnd = lease.holder()
			return nil
		}), i}
		var both sync.WaitGroup
		for _, start := range []func(context.Context) error{i.Start, w.Start} {
			both.Go(func() {
				if err := start(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		<-started
		if tc.processEnds {
			end()
		}
		stop()
		both.Wait()
		end()
		if atEnd != "own" || lease.holder() != tc.want {
			t.Errorf("%q held the lease when the controller ended, %q after the stop, want %q", atEnd, lease.holder(), tc.want)
		}
		late := waiter{manager.RunnableFunc(func(context.Context) error { t.Error("works after the stop"); return nil }), i}
		if err := late.Start(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestOtherLeaseValidate(t *testing.T) {
	for _, tc := range []struct {
		row  OtherLease
		want string // "" if it is valid
	}{
		{OtherLease{Namespace: "kube-system", Name: "cert-manager-controller"}, ""},
		{OtherLease{Namespace: "a", Name: "of-mine", Controllers: []string{"@cert-manager", "clean"}}, ""},
		{OtherLease{Name: "cert-manager-controller"}, `at.namespace: "" cannot be a namespace`},
		{OtherLease{Namespace: "A", Name: "cert-manager-controller"}, `at.namespace: "A"`},
		{OtherLease{Namespace: "kube-system"}, `at.name: "" cannot be the name of a Lease`},
		{OtherLease{Namespace: "kube-system", Name: "a b"}, `at.name: "a b"`},
		{OtherLease{Namespace: "a", Name: "b", Controllers: []string{"x"}}, `at.controllers: "x" is not one of approve, `},
		{OtherLease{Namespace: "a", Name: "b", Controllers: []string{"*"}}, `at.controllers: "*" is not one of`},
		{OtherLease{Namespace: "a", Name: "b", Controllers: []string{"-clean"}}, `at.controllers: "-clean" is not one of`},
		{OtherLease{Namespace: "a", Name: "b"}, "at.controllers: missing: name the controllers that wait for the Lease a/b"},
	} {
		err := tc.row.Validate("at")
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%v: %v", tc.row, err)
		}
	}
}

// By default, the times of elections are those of the programs.
func TestOtherLeaseTimes(t *testing.T) {
	for name, want := range map[string][3]time.Duration{
		"cert-manager-controller":       {time.Minute, 40 * time.Second, 15 * time.Second},
		"trust-manager-leader-election": {15 * time.Second, 10 * time.Second, 2 * time.Second},
		"of-mine":                       {time.Minute, 40 * time.Second, 15 * time.Second},
	} {
		got := OtherLease{Name: name}.times()
		if [3]time.Duration{got.LeaseDuration.Duration, got.RenewDeadline.Duration, got.RetryPeriod.Duration} != want || got.Validate() != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
