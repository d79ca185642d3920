package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// lookEvery is how often to look at what the API has.
	lookEvery = time.Minute
	// firstLook is how soon to look again while the API has no such resource;
	// each following look is twice as late, up to lookEvery. APIs that start at
	// the same time get their resources in their first moments.
	firstLook = 200 * time.Millisecond
)

// Resource is a resource that an API can have in several versions, in one or
// not at all.
type Resource struct {
	Group string
	// Versions are those that we can work with, the best first.
	Versions []string
	// Name is the plural, such as clustertrustbundles.
	Name string
	// Lookup asks the API.
	Lookup Lookup

	first, every time.Duration // instead of firstLook and lookEvery
}

// OneVersion is a resource of which we can work with one version.
func OneVersion(version schema.GroupVersion, name string, lookup Lookup) Resource {
	return Resource{Group: version.Group, Versions: []string{version.Version}, Name: name, Lookup: lookup}
}

// Lookup tells which resources a version of an API has. It is the method
// ServerResourcesForGroupVersionWithContext of a discovery client.
type Lookup func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)

// Version returns the best version in which the API has the resource, or
// nothing.
func (r Resource) Version(ctx context.Context) (string, error) {
	for _, version := range r.Versions {
		list, err := r.Lookup(ctx, schema.GroupVersion{Group: r.Group, Version: version}.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		for _, resource := range list.APIResources {
			if resource.Name == r.Name {
				return version, nil
			}
		}
	}
	return "", nil
}

// errOtherVersion ends work for a version that is not the best any more.
var errOtherVersion = errors.New("the API has the resource in another version now")

// Follow does work while the API has the resource, for one version at a time,
// until ctx ends. Work that ends by itself has failed and is begun again. What
// it is, such as "Publishing trust bundles", is for the log.
func (r Resource) Follow(ctx context.Context, what string, work func(ctx context.Context, version string) error) {
	first, every := cmp.Or(r.first, firstLook), cmp.Or(r.every, lookEvery)
	said, pause := "", first
	asPlanned := 1 // the verbosity: that a resource is there is worth a line once it was not
	for ; ctx.Err() == nil; pause = min(2*pause, every) {
		version, err := r.Version(ctx)
		if version == "" {
			asPlanned = 0
		}
		if state := r.describe(what, version, err); state != said && ctx.Err() == nil {
			said = state
			log.FromContext(ctx).V(asPlanned).Info(state)
		}
		if version != "" {
			started := time.Now()
			err := r.do(ctx, version, work)
			if err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, what+" has failed; trying again")
			}
			if said = ""; time.Since(started) > every {
				pause = first
			}
		}
		wait(ctx, pause)
	}
}

// While is Follow for a runnable of a manager: it logs under a name, and its end is no
// failure.
func (r Resource) While(ctx context.Context, name, what string, work func(ctx context.Context, version string) error) error {
	r.Follow(log.IntoContext(ctx, log.FromContext(ctx).WithName(name)), what, work)
	return nil
}

func (r Resource) describe(what, version string, err error) string {
	switch {
	case err != nil:
		return "Cannot tell whether the API has " + r.Name + ": " + err.Error()
	case version == "":
		return what + " waits until the API has " + r.Name
	default:
		return what + " of version " + version
	}
}

// do does work until it fails, or the API has the resource in another version
// or not at all any more, which is no failure.
func (r Resource) do(ctx context.Context, version string, work func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for wait(ctx, cmp.Or(r.every, lookEvery)) {
			// An API that does not answer is no reason: what it had it will have.
			if now, err := r.Version(ctx); err == nil && now != version {
				cancel(errOtherVersion)
			}
		}
	}()
	err := work(ctx, version)
	if errors.Is(context.Cause(ctx), errOtherVersion) {
		return nil
	}
	return err
}

// wait returns whether it was not interrupted.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
