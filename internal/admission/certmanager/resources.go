package certmanager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// absence is for how long a kind that its group does not have is not looked for
// again.
const absence = 30 * time.Second

// errNoResource says that nothing of a kind is served.
var errNoResource = errors.New("no resource is served of the kind")

// Discovery tells which kinds there are.
type Discovery interface {
	ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// resource is what the names of signers need to know of a kind.
type resource struct {
	name       string // in the plural
	namespaced bool
}

// resources finds the resources of kinds. What it has found once it keeps:
// neither the name nor the scope of a kind changes.
type resources struct {
	discovery Discovery
	clock     clock.PassiveClock

	mu     sync.Mutex // guards the rest
	found  map[schema.GroupKind]resource
	absent map[schema.GroupKind]time.Time // until when
}

func newResources(discovery Discovery) *resources {
	return &resources{
		discovery: discovery, clock: clock.RealClock{},
		found: map[schema.GroupKind]resource{}, absent: map[schema.GroupKind]time.Time{},
	}
}

// find returns errNoResource if there is none.
func (r *resources) find(ctx context.Context, kind schema.GroupKind) (resource, error) {
	if known := r.remembered(kind); known != nil {
		return known.resource, known.err
	}
	found, served, err := r.discover(ctx, kind)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.found[kind] = found
		delete(r.absent, kind)
	case errors.Is(err, errNoResource) && served:
		r.forget()
		r.absent[kind] = r.clock.Now().Add(absence)
	}
	return found, err
}

// answer is what is known of a kind.
type answer struct {
	resource
	err error
}

func (r *resources) remembered(kind schema.GroupKind) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, known := r.found[kind]; known {
		return &answer{resource: found}
	}
	if until, known := r.absent[kind]; known && r.clock.Now().Before(until) {
		return &answer{err: errNoResource}
	}
	return nil
}

// forget drops what is out of date: whoever writes requests invents kinds.
func (r *resources) forget() {
	now := r.clock.Now()
	for kind, until := range r.absent {
		if !now.Before(until) {
			delete(r.absent, kind)
		}
	}
}

// discover asks. served tells whether anything of the group is served.
func (r *resources) discover(ctx context.Context, kind schema.GroupKind) (found resource, served bool, err error) {
	groups, err := r.discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return resource{}, false, fmt.Errorf("looking for API group %s: %w", kind.Group, err)
	}
	for _, group := range groups.Groups {
		if group.Name != kind.Group {
			continue
		}
		for _, version := range group.Versions {
			found, err := r.inVersion(ctx, version.GroupVersion, kind.Kind)
			if err == nil || !errors.Is(err, errNoResource) {
				return found, true, err
			}
		}
		return resource{}, true, errNoResource
	}
	return resource{}, false, errNoResource
}

func (r *resources) inVersion(ctx context.Context, version, kind string) (resource, error) {
	list, err := r.discovery.ServerResourcesForGroupVersionWithContext(ctx, version)
	if apierrors.IsNotFound(err) {
		return resource{}, errNoResource // it has just gone
	}
	if err != nil {
		return resource{}, fmt.Errorf("looking for kind %s in %s: %w", kind, version, err)
	}
	for _, known := range list.APIResources {
		isSubresource := strings.Contains(known.Name, "/")
		if known.Kind == kind && !isSubresource {
			return resource{known.Name, known.Namespaced}, nil
		}
	}
	return resource{}, errNoResource
}
