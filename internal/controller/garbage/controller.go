package garbage

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// workers is the number of objects that are decided about concurrently.
const workers = 4

// unsettledPause is the time between two checks of an object that cannot be decided before
// all kinds are listed.
const unsettledPause = 100 * time.Millisecond

// refusedPause is the time after which the deletion of an object is tried again that the
// API has refused, unless the object changes: what protects it can be gone then.
const refusedPause = 6 * time.Hour

// Config is the configuration of the controller. All clients use the controller's own
// identity.
type Config struct {
	// Discovery returns the served kinds.
	Discovery discovery.DiscoveryInterfaceWithContext
	// Objects reads, patches and deletes objects of all kinds.
	Objects metadata.Interface
	// Events reports objects that cannot be deleted.
	Events events.EventRecorder
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
}

// Add registers the controller with mgr. It does not use mgr's cache: it
// watches every kind and stores very little of each object.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		run(log.IntoContext(ctx, mgr.GetLogger().WithName("garbage")), cfg)
		return nil
	})); err != nil {
		return fmt.Errorf("adding the garbage collector: %w", err)
	}
	return nil
}

// run collects until ctx ends.
func run(ctx context.Context, cfg Config) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]())
	graph := newGraph(queue.Add)
	watcher := &watcher{
		discovery:  cfg.Discovery,
		objects:    cfg.Objects,
		clock:      cfg.Clock,
		graph:      graph,
		rediscover: make(chan struct{}, 1),
		feeds:      map[schema.GroupKind]*feed{},
	}
	c := &collector{objects: cfg.Objects, events: cfg.Events, graph: graph, kinds: watcher.kinds, changed: queue.Add}

	var running sync.WaitGroup
	running.Go(func() { watcher.run(ctx) })
	for range workers {
		running.Go(func() {
			for work(ctx, queue, watcher, c) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	running.Wait()
}

// work decides about the next object. It returns false when the queue has
// ended.
func work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[types.UID], watcher *watcher, c *collector) bool {
	uid, ended := queue.Get()
	if ended {
		return false
	}
	defer queue.Done(uid)
	if !watcher.settled(watcher.clock.Now()) {
		// A dependent that has not been seen yet would be overlooked.
		queue.AddAfter(uid, unsettledPause)
		return true
	}
	switch err := c.collect(ctx, uid); {
	case err == nil:
		queue.Forget(uid)
	case ctx.Err() != nil:
	case apierrors.IsConflict(err):
		queue.AddRateLimited(uid)
	case isRefused(err):
		queue.Forget(uid)
		queue.AddAfter(uid, refusedPause)
	default:
		log.FromContext(ctx).Error(err, "Cannot decide about an object yet", "uid", uid)
		queue.AddRateLimited(uid)
	}
	return true
}
