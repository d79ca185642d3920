package certmanager

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	api "github.com/certplane/certplane/internal/api/certmanager"
)

// absence is how long the absence of a kind from its group is cached.
const absence = 30 * time.Second

// resources finds the resources of kinds and caches them: neither the name nor the
// scope of a kind changes.
type resources struct {
	discovery api.Discovery
	clock     clock.PassiveClock

	mu     sync.Mutex // guards the rest
	found  map[schema.GroupKind]api.Resource
	absent map[schema.GroupKind]time.Time // the end of the time
}

func newResources(discovery api.Discovery) *resources {
	return &resources{
		discovery: discovery, clock: clock.RealClock{},
		found: map[schema.GroupKind]api.Resource{}, absent: map[schema.GroupKind]time.Time{},
	}
}

// find returns api.ErrNoResource if the resource does not exist.
func (r *resources) find(ctx context.Context, kind schema.GroupKind) (api.Resource, error) {
	if known := r.remembered(kind); known != nil {
		return known.Resource, known.err
	}
	found, served, err := api.FindResource(ctx, r.discovery, kind)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.found[kind] = found
		delete(r.absent, kind)
	case errors.Is(err, api.ErrNoResource) && served:
		r.forget()
		r.absent[kind] = r.clock.Now().Add(absence)
	}
	return found, err
}

// answer is the cached result for a kind.
type answer struct {
	api.Resource
	err error
}

func (r *resources) remembered(kind schema.GroupKind) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, known := r.found[kind]; known {
		return &answer{Resource: found}
	}
	if until, known := r.absent[kind]; known && r.clock.Now().Before(until) {
		return &answer{err: api.ErrNoResource}
	}
	return nil
}

// forget drops expired entries: clients can send requests with any number of
// invented kinds.
func (r *resources) forget() {
	now := r.clock.Now()
	for kind, until := range r.absent {
		if !now.Before(until) {
			delete(r.absent, kind)
		}
	}
}
