package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/explain"
)

// userAPI is the API, called as the user of a request.
type userAPI struct {
	explain.API
	resources *resources
}

// Resource implements explain.Reader.
func (a userAPI) Resource(ctx context.Context, kind schema.GroupKind) (certmanager.Resource, error) {
	return a.resources.find(ctx, a.API, kind)
}

const (
	// resourceTime is the time that the resource of a kind is cached.
	resourceTime = 30 * time.Second
	// maxResources limits the cache: requests can name any kind of issuer.
	maxResources = 500
)

// resources caches the resources of kinds, which are the same for all users.
type resources struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	all   map[schema.GroupKind]foundResource
}

type foundResource struct {
	certmanager.Resource
	err error // nil or certmanager.ErrNoResource
}

func (r *resources) find(ctx context.Context, api explain.API, kind schema.GroupKind) (certmanager.Resource, error) {
	if found, ok := r.remembered(kind); ok {
		return found.Resource, found.err
	}
	resource, err := api.Resource(ctx, kind)
	if err == nil || errors.Is(err, certmanager.ErrNoResource) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all[kind] = foundResource{resource, err}
	}
	return resource, err
}

// remembered returns the cached resource of a kind. It removes old entries.
func (r *resources) remembered(kind schema.GroupKind) (foundResource, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || r.now().Sub(r.since) > resourceTime || len(r.all) >= maxResources {
		r.all, r.since = map[schema.GroupKind]foundResource{}, r.now()
	}
	found, ok := r.all[kind]
	return found, ok
}
