package garbage

import (
	"context"
	"io"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// discoverEvery is the interval at which the controller looks for new kinds that no
	// watch has reported.
	discoverEvery = time.Minute
	// settleTime is the time between a new definition and discovery, in which
	// it gets served.
	settleTime = 500 * time.Millisecond
	// patience is how long a kind that cannot be listed delays decisions.
	patience = 30 * time.Second
)

// definitions is the kind whose objects define other kinds.
var definitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// watcher feeds the graph with the objects of every kind, as kinds come and go.
type watcher struct {
	discovery discovery.DiscoveryInterfaceWithContext
	objects   metadata.Interface
	clock     clock.PassiveClock
	graph     *graph
	// rediscover is signalled, without blocking, when kinds may have changed.
	rediscover chan struct{}

	mu    sync.Mutex
	known kinds
	feeds map[schema.GroupKind]*feed
}

// feed watches the objects of one kind.
type feed struct {
	watcher *watcher
	kind    *kind
	since   time.Time
	stop    context.CancelFunc
	// listed is closed when all objects have been seen once.
	listed     chan struct{}
	listedOnce sync.Once
}

// run follows discovery until ctx ends.
func (w *watcher) run(ctx context.Context) {
	ticker := time.NewTicker(discoverEvery)
	defer ticker.Stop()
	for {
		w.sync(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.rediscover:
			select { // wait for the rest of a burst
			case <-ctx.Done():
				return
			case <-time.After(settleTime):
			}
		}
	}
}

// sync starts a feed for each new kind and stops the feeds of removed kinds.
func (w *watcher) sync(ctx context.Context) {
	found, err := discover(ctx, w.discovery)
	if err != nil {
		log.FromContext(ctx).Error(err, "Some kinds are not known")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil { // what could not be discovered still exists
		for group, k := range w.known {
			if found[group] == nil && found != nil {
				found[group] = k
			}
		}
	}
	if found == nil {
		return
	}
	changed := !maps.EqualFunc(w.known, found, func(a, b *kind) bool { return a.same(b) })
	w.known = found
	for group, f := range w.feeds {
		if k := found[group]; !f.kind.same(k) {
			f.stop()
			delete(w.feeds, group)
			w.graph.keepOnly(f.kind, nil)
		}
	}
	for group, k := range found {
		if k.watched && w.feeds[group] == nil {
			w.feeds[group] = w.start(ctx, k)
		}
	}
	if changed {
		w.graph.lookAgain()
	}
}

func (w *watcher) start(ctx context.Context, k *kind) *feed {
	ctx, stop := context.WithCancel(ctx)
	f := &feed{watcher: w, kind: k, since: w.clock.Now(), stop: stop, listed: make(chan struct{})}
	objects := w.objects.Resource(k.resource)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := objects.List(ctx, options)
			return list, f.explain(ctx, err)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := objects.Watch(ctx, options)
			return events, f.explain(ctx, err)
		},
	}, w.objects)
	logger := log.FromContext(ctx).V(1)
	reflector := cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, f, cache.ReflectorOptions{
		Name: "garbage " + k.resource.String(), TypeDescription: k.resource.String(), Logger: &logger,
	})
	go reflector.RunWithContext(ctx)
	return f
}

// explain triggers discovery when a kind is no longer served, and ends the feed
// without an error in the log.
func (f *feed) explain(ctx context.Context, err error) error {
	if apierrors.IsNotFound(err) {
		f.watcher.kindsChanged()
	}
	if err != nil && ctx.Err() != nil {
		return io.EOF // ends the watch without a message
	}
	return err
}

func (w *watcher) kindsChanged() {
	select {
	case w.rediscover <- struct{}{}:
	default:
	}
}

// settled reports whether the graph is complete: it knows every object, except
// those of kinds that could not be listed for a while.
func (w *watcher) settled(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.feeds {
		select {
		case <-f.listed:
		default:
			if now.Sub(f.since) < patience {
				return false
			}
		}
	}
	return w.known != nil
}

// kinds returns the served kinds.
func (w *watcher) kinds() kinds {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// A feed is the store of a reflector. It does not keep objects itself.
var _ cache.ReflectorStore = &feed{}

func (f *feed) Add(obj any) error { return f.Update(obj) }

func (f *feed) Update(obj any) error {
	f.noticeDefinition()
	f.watcher.graph.observe(f.kind, obj.(*metav1.PartialObjectMetadata))
	return nil
}

func (f *feed) Delete(obj any) error {
	f.noticeDefinition()
	f.watcher.graph.forget(obj.(*metav1.PartialObjectMetadata).UID)
	return nil
}

func (f *feed) Replace(list []any, _ string) error {
	f.noticeDefinition()
	uids := map[types.UID]struct{}{}
	for _, obj := range list {
		object := obj.(*metav1.PartialObjectMetadata)
		uids[object.UID] = struct{}{}
		f.watcher.graph.observe(f.kind, object)
	}
	f.watcher.graph.keepOnly(f.kind, uids)
	f.listedOnce.Do(func() { close(f.listed) })
	return nil
}

func (f *feed) Resync() error { return nil }

func (f *feed) noticeDefinition() {
	if f.kind.group() == definitions {
		f.watcher.kindsChanged()
	}
}
