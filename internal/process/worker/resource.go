package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// lookEvery is how often to check which resources the API has.
	lookEvery = time.Minute
	// firstLook is the first wait until the next check while the API has no
	// such resource. Each following wait is twice as long, up to lookEvery.
	// APIs that start at the same time get their resources in their first
	// moments.
	firstLook = 200 * time.Millisecond
)

// Resource is a resource that an API can have in several versions, in one or
// not at all.
type Resource struct {
	Group string
	// Versions are the versions that we can work with, the preferred one first.
	Versions []string
	// Name is the plural, such as clustertrustbundles. Others are resources that a version
	// must have too: a watch of a missing one never syncs, and keeps all controllers that share
	// its cache from their start.
	Name   string
	Others []string
	// Lookup asks the API.
	Lookup Lookup

	first, every time.Duration // instead of firstLook and lookEvery
}

// OneVersion returns a resource of which this program supports a single version, which must
// have the others too.
func OneVersion(version schema.GroupVersion, name string, lookup Lookup, others ...string) Resource {
	return Resource{Group: version.Group, Versions: []string{version.Version}, Name: name, Others: others, Lookup: lookup}
}

// TrustBundles returns the resource clustertrustbundles. The parts that we use are the
// same in all versions.
func TrustBundles(lookup Lookup) Resource {
	return Resource{Group: certificatesv1.GroupName, Versions: []string{"v1", "v1beta1", "v1alpha1"}, Name: "clustertrustbundles", Lookup: lookup}
}

// Lookup returns the resources of a version of an API. It is the method
// ServerResourcesForGroupVersionWithContext of a discovery client.
type Lookup func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)

// Version returns the preferred version in which the API has the resource and the others, or
// "".
func (r Resource) Version(ctx context.Context) (string, error) {
	for _, version := range r.Versions {
		list, err := r.Lookup(ctx, schema.GroupVersion{Group: r.Group, Version: version}.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		isMissing := func(name string) bool {
			return !slices.ContainsFunc(list.APIResources, func(resource metav1.APIResource) bool { return resource.Name == name })
		}
		if !isMissing(r.Name) && !slices.ContainsFunc(r.Others, isMissing) {
			return version, nil
		}
	}
	return "", nil
}

// errOtherVersion ends work for a version that is no longer the preferred one.
var errOtherVersion = errors.New("the API has the resource in another version now")

// Follow calls work while the API serves the resource, for one version at a time, until ctx
// ends. If work returns before its context ends, Follow treats that as a failure and calls
// it again. what describes the work in the log, such as "Publishing trust bundles".
func (r Resource) Follow(ctx context.Context, what string, work func(ctx context.Context, version string) error) {
	first, every := cmp.Or(r.first, firstLook), cmp.Or(r.every, lookEvery)
	said, pause := "", first
	asPlanned := 1 // the verbosity: that the resource exists is logged only if it was missing before
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
			lasted := time.NewTimer(every)
			err := r.do(ctx, version, work)
			if err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, what+" has failed; trying again")
			}
			if said = ""; !lasted.Stop() {
				pause = first
			}
		}
		Sleep(ctx, pause)
	}
}

// While is Follow for a runnable of a manager. It logs under a name, and its
// end is not an error.
func (r Resource) While(ctx context.Context, name, what string, work func(ctx context.Context, version string) error) error {
	r.Follow(log.IntoContext(ctx, log.FromContext(ctx).WithName(name)), what, work)
	return nil
}

func (r Resource) describe(what, version string, err error) string {
	switch {
	case err != nil:
		return "Cannot tell whether the API has " + r.Name + ": " + err.Error()
	case version == "":
		return what + " waits until the API has " + strings.Join(append([]string{r.Name}, r.Others...), " and ")
	default:
		return what + " of version " + version
	}
}

// do runs work until it fails, or the API has the resource in another version
// or no longer at all, which is not an error.
func (r Resource) do(ctx context.Context, version string, work func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for Sleep(ctx, cmp.Or(r.every, lookEvery)) {
			// An API that does not answer is not a reason to stop: it will still serve the
			// same resource.
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
