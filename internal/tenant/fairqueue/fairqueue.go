// Package fairqueue lets tenants take turns in the queue of a controller: a tenant
// with few requests is not held up by one with many.
package fairqueue

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

const (
	// window is how long a request counts: between once and twice this time.
	window = time.Minute
	// last is the place of a tenant with more requests than that in the window.
	// Objects that a start finds, and those that are checked again, come before
	// it: new requests of such tenants do not hold up old ones.
	last = -handler.LowPriority + 1
)

// Handler enqueues requests for certificates. The place of each request is how
// many its tenant has made before, within a minute or two. Requests with the
// same place keep the order in which they came. The queue must be a priority
// queue.
type Handler struct {
	handler.EnqueueRequestForObject
	clock clock.PassiveClock

	mu sync.Mutex // guards all below
	// before and now count the requests of each tenant: before in the window
	// before since, now in the window after it.
	before, now map[fairshare.Tenant]int
	since       time.Time
}

var _ handler.EventHandler = &Handler{}

// New returns a handler.
func New(clock clock.PassiveClock) *Handler {
	return &Handler{clock: clock, now: map[fairshare.Tenant]int{}, since: clock.Now()}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Create implements handler.EventHandler.
func (h *Handler) Create(_ context.Context, e event.CreateEvent, q queue) {
	h.add(q, e.Object, e.IsInInitialList)
}

// Update implements handler.EventHandler.
func (h *Handler) Update(_ context.Context, e event.UpdateEvent, q queue) {
	h.add(q, e.ObjectNew, e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion())
}

func (h *Handler) add(q queue, object client.Object, known bool) {
	item := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	ordered, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok {
		q.Add(item)
		return
	}
	priority := handler.LowPriority
	if !known {
		priority = h.Priority(object)
	}
	ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, item)
}

// Priority counts a request of an object's tenant, and returns the priority with
// which it is queued.
func (h *Handler) Priority(object client.Object) int {
	return -min(h.place(tenant.OfObject(object)), last)
}

// place counts a tenant's requests. Tenants that are not limited go first.
func (h *Handler) place(who fairshare.Tenant) int {
	if who == tenant.Exempt {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch passed := h.clock.Since(h.since); {
	case passed >= 2*window:
		h.before, h.now, h.since = nil, map[fairshare.Tenant]int{}, h.clock.Now()
	case passed >= window:
		h.before, h.now, h.since = h.now, map[fairshare.Tenant]int{}, h.clock.Now()
	}
	place := h.before[who] + h.now[who]
	h.now[who]++
	return place
}
