// Package issueoncreate lets controllers approve and answer a request inside the API call
// that creates it, so that the request, its approval and its certificate are stored by one
// write.
//
// The API server and the controllers of one process share a Hub. The controllers add their
// steps to it. Before the API server stores a new request, it runs the steps, with the same
// reconcilers that work on stored requests. Their clients (see Client) find the request that
// is being created, and their updates change it, with the same authorization, admission and
// validation as updates of a stored one. What the creation has checked is not checked again.
// The last update triggers the write, and returns when the write is done. So a reconciler
// reports only results that have been stored.
package issueoncreate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Role is what a step does. Steps run in the order of their roles.
type Role int

// The roles.
const (
	Approve Role = iota
	Sign
)

// Step is the work of one controller on a request.
type Step struct {
	// Resource is the resource of the requests.
	Resource schema.GroupResource
	Role     Role
	// Takes reports whether the step applies to a request in its present state. It must not
	// modify the request.
	Takes func(request client.Object) bool
	// Reconciler does the work. It reads and writes the request by clients of this
	// package.
	Reconciler reconcile.Reconciler
}

// Hub has the steps of the controllers that work in this process. A Hub that is nil
// has none. It is safe for concurrent use.
type Hub struct {
	mu    sync.RWMutex // guards steps
	steps []*Step      // by role
}

// Add adds a step until remove is called.
func (h *Hub) Add(step Step) (remove func()) {
	if h == nil {
		return func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	added := &step
	h.steps = append(slices.Clone(h.steps), added) // readers have the former slice
	slices.SortStableFunc(h.steps, func(a, b *Step) int { return int(a.Role - b.Role) })
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.steps = slices.DeleteFunc(slices.Clone(h.steps), func(s *Step) bool { return s == added })
	}
}

// Start adds a step until ctx ends.
func (h *Hub) Start(ctx context.Context, step Step) { context.AfterFunc(ctx, h.Add(step)) }

// AddTo adds a step while mgr works: if it needs a lease, while it has that.
func (h *Hub) AddTo(mgr manager.Manager, step Step) error {
	if h == nil {
		return nil
	}
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer h.Add(step)()
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		return fmt.Errorf("adding the steps that run while requests are created: %w", err)
	}
	return nil
}

// Takes reports whether a step takes a new request.
func (h *Hub) Takes(resource schema.GroupResource, request client.Object) bool {
	return slices.ContainsFunc(h.of(resource), func(s *Step) bool { return s.Takes(request) })
}

func (h *Hub) of(resource schema.GroupResource) []*Step {
	if h == nil {
		return nil
	}
	h.mu.RLock()
	all := h.steps
	h.mu.RUnlock()
	var steps []*Step
	for _, step := range all {
		if step.Resource == resource {
			steps = append(steps, step)
		}
	}
	return steps
}
