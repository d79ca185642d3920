// Package trust publishes the roots of signers as ClusterTrustBundles, where
// the API has them.
package trust

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/process/collector/syncmetrics"
	"github.com/certplane/certplane/internal/process/worker"
)

const kindName = "ClusterTrustBundle"

// Signer is a signer whose roots are published.
type Signer struct {
	rollover.Signer
	// Roots are the present roots.
	Roots roots.Roots
}

// Config is the configuration of the publisher.
type Config struct {
	// API is the configuration with which the publisher watches the API with
	// its own identity. It needs list, watch, create, update and delete on
	// clustertrustbundles, and attest on the signers.
	API *rest.Config
	// Client writes with the same identity.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Signers are those whose roots are published.
	Signers []Signer
	// More, if not nil, returns further signers as they come and go. It is
	// cheap and safe for concurrent use. The roots of a removed signer stay for
	// its overlap.
	More func() []Signer
	// Complete reports whether More returns all existing signers. Any other
	// signer is then gone.
	Complete func() bool
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what happened to bundles.
	Events events.EventRecorder
	// Metrics, if not nil, is where the publisher's metrics are registered.
	Metrics prometheus.Registerer
}

// Add adds the publisher to mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	metrics, err := syncmetrics.New(cfg.Metrics, "clustertrustbundle_publisher", "the trust bundles of a signer")
	if err != nil {
		return fmt.Errorf("registering the trust bundle publisher's metrics: %w", err)
	}
	if err := mgr.Add(&publisher{Config: cfg, metrics: metrics, removed: map[string]Signer{}}); err != nil {
		return fmt.Errorf("adding the trust bundle publisher: %w", err)
	}
	return nil
}

// publisher publishes while the API has trust bundles.
type publisher struct {
	Config
	metrics *syncmetrics.Metrics

	mu      sync.Mutex // guards gone
	removed map[string]Signer
}

// Start implements manager.Runnable.
func (p *publisher) Start(ctx context.Context) error {
	bundles := worker.TrustBundles(p.Versions)
	return bundles.While(ctx, "trust", "Publishing trust bundles", p.publish)
}
