// Package signers opens the signers that Signer objects declare, and keeps
// what these say of themselves true.
package signers

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/declared"
	"github.com/certplane/certplane/internal/worker"
)

// CA is where a CA comes from that is nobody's alone.
type CA interface {
	// Current returns the CA with which to sign now. It must be fast.
	Current() (*pki.Authority, error)
}

// Config is what the controller needs to run.
type Config struct {
	// Cache is how Signers are watched: as the identity of the cache that all
	// controllers share. It needs get, list and watch on signers.
	Cache *rest.Config
	// API is how Secrets in Namespace are watched, as the controller's own
	// identity, and Client writes with the same: create and update on secrets,
	// update on signers/status.
	API    *rest.Config
	Client client.Client
	// Namespace is where the Secrets of CAs are.
	Namespace string
	// Versions tells which resources a version of the API has.
	Versions worker.Lookup
	// Signers gets the signers.
	Signers *declared.Set
	// BuiltIn is the CA of the built-in signers; nil: there is none.
	BuiltIn CA
	// Issuing is what the signers sign with besides their CAs.
	Issuing pki.Issuing
	// Honoured are the CAs of the API's own clients, if they are known.
	Honoured signer.Honoured
	// Taken tells who else signs for a name, or nothing. It can be nil.
	Taken func(signerName string) string
	// Settings are the user's.
	Settings Settings
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
	// Events, if there is one, tells what happened to signers.
	Events events.EventRecorder
	// Metrics, if there is one, gets the signers' metrics.
	Metrics prometheus.Registerer
}

// Add adds the controller to mgr. It works while the API has Signers.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	counts, err := newMetrics(cfg.Metrics)
	if err != nil {
		return fmt.Errorf("registering the metrics of declared signers: %w", err)
	}
	if err := mgr.Add(&controller{Config: cfg, metrics: counts, memory: newMemory()}); err != nil {
		return fmt.Errorf("adding the declared signers: %w", err)
	}
	return nil
}

// controller works while the API has Signers.
type controller struct {
	Config
	metrics *metrics
	memory  *memory
}

// Start implements manager.Runnable.
func (c *controller) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "signers", c.Versions).While(ctx, "signers", "Following declared signers", c.work)
}
