// Package trust publishes the roots of signers as ClusterTrustBundles, where
// the API has such.
package trust

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/roots"
	"github.com/certplane/certplane/internal/syncs"
)

const (
	kindName     = "ClusterTrustBundle"
	resourceName = "clustertrustbundles"
	// discoverEvery is how often the publisher looks whether the API has trust
	// bundles, and in which version.
	discoverEvery = time.Minute
)

// versions are those of the API in which there are trust bundles, the best
// first. What we need of them is the same in all.
var versions = []string{"v1", "v1beta1", "v1alpha1"}

// Signer is a signer whose roots are published.
type Signer struct {
	rollover.Signer
	// Roots are those of now.
	Roots roots.Roots
}

// Config is what the publisher needs to run.
type Config struct {
	// API is how the publisher watches the API as its own identity. It needs
	// list, watch, create, update and delete on clustertrustbundles, and attest
	// on the signers.
	API *rest.Config
	// Client writes with the same identity.
	Client client.Client
	// Versions tells which resources a version of the API has.
	Versions func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
	// Signers are those whose roots are published.
	Signers []Signer
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
	// Events, if there is one, tells what happened to bundles.
	Events events.EventRecorder
	// Metrics, if there is one, gets the publisher's metrics.
	Metrics prometheus.Registerer
}

// Add adds the publisher to mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	metrics, err := syncs.New(cfg.Metrics, "clustertrustbundle_publisher", "the trust bundles of a signer")
	if err != nil {
		return fmt.Errorf("registering the trust bundle publisher's metrics: %w", err)
	}
	if err := mgr.Add(&publisher{Config: cfg, metrics: metrics, every: discoverEvery}); err != nil {
		return fmt.Errorf("adding the trust bundle publisher: %w", err)
	}
	return nil
}

// publisher publishes while the API has trust bundles.
type publisher struct {
	Config
	metrics *syncs.Metrics
	every   time.Duration // how often to look what the API has
}

// Start implements manager.Runnable.
func (p *publisher) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("trust"))
	said := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		version, err := p.version(ctx)
		if state := describe(version, err); state != said {
			said = state
			log.FromContext(ctx).Info(state)
		}
		if version == "" {
			return
		}
		if err := p.publish(ctx, version); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Publishing trust bundles has failed; trying again")
			said = ""
		}
	}, p.every)
	return nil
}

func describe(version string, err error) string {
	switch {
	case err != nil:
		return "Cannot tell whether the API has trust bundles: " + err.Error()
	case version == "":
		return "The API has no trust bundles, so none are published until it has"
	default:
		return "Publishing trust bundles of version " + version
	}
}

// version returns the version in which the API has trust bundles, or nothing.
func (p *publisher) version(ctx context.Context) (string, error) {
	for _, version := range versions {
		list, err := p.Versions(ctx, schema.GroupVersion{Group: certificatesv1.GroupName, Version: version}.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		for _, resource := range list.APIResources {
			if resource.Name == resourceName {
				return version, nil
			}
		}
	}
	return "", nil
}

// errOtherVersion ends a session that was for a version that is not the best
// any more.
var errOtherVersion = errors.New("the API has trust bundles in another version now")

// follow returns when the API has trust bundles in another version or not at
// all any more.
func (p *publisher) follow(ctx context.Context, version string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.every):
		}
		// An API that does not answer is no reason: what it had it will have.
		if now, err := p.version(ctx); err == nil && now != version {
			return errOtherVersion
		}
	}
}
