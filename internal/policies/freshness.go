package policies

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
)

// freshness tracks since when changes of policies may have been missed because a kind
// is not watched. It is safe for concurrent use.
type freshness struct {
	clock clock.PassiveClock

	mu sync.Mutex // guards since
	// since holds the kinds that have been watched. The zero time marks a kind that is
	// watched now.
	since map[schema.GroupVersionResource]time.Time
}

func newFreshness(clock clock.PassiveClock) *freshness {
	return &freshness{clock: clock, since: map[schema.GroupVersionResource]time.Time{}}
}

func (f *freshness) watched(resource schema.GroupVersionResource, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch since, known := f.since[resource]; {
	case is:
		f.since[resource] = time.Time{}
	case !known || since.IsZero():
		f.since[resource] = f.clock.Now()
	}
}

// age returns for how long changes may have been missed.
func (f *freshness) age() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var longest time.Duration
	for _, since := range f.since {
		if !since.IsZero() {
			longest = max(longest, f.clock.Since(since))
		}
	}
	return longest
}

// ageEvery is how often the metric of the age is set.
const ageEvery = 10 * time.Second

// show keeps the metric of the age until ctx ends.
func (f *freshness) show(ctx context.Context, age prometheus.Gauge) {
	wait.UntilWithContext(ctx, func(context.Context) { age.Set(f.age().Seconds()) }, ageEvery)
}

// tracked is a client that tells freshness of its watches.
type tracked struct {
	dynamic.Interface
	freshness *freshness
}

func (t tracked) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return trackedResource{t.Interface.Resource(resource), resource, t.freshness}
}

type trackedResource struct {
	dynamic.NamespaceableResourceInterface
	resource  schema.GroupVersionResource
	freshness *freshness
}

// Namespace returns the resource itself: policies have no namespace.
func (r trackedResource) Namespace(string) dynamic.ResourceInterface { return r }

func (r trackedResource) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	watching, err := r.NamespaceableResourceInterface.Watch(ctx, options)
	r.freshness.watched(r.resource, err == nil)
	if err != nil {
		return nil, err
	}
	return trackedWatch{watching, r}, nil
}

// trackedWatch is a watch whose user stops it also when the server has ended it.
type trackedWatch struct {
	watch.Interface
	of trackedResource
}

func (w trackedWatch) Stop() {
	w.of.freshness.watched(w.of.resource, false)
	w.Interface.Stop()
}
