// Package signers opens the signers that Signer objects declare, and keeps the
// status of these objects up to date.
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
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
)

// CA is the source of a CA that several signers share.
type CA interface {
	// Current returns the CA with which to sign now. It must be fast.
	Current() (*pki.Authority, error)
}

// Config is the configuration of the controller.
type Config struct {
	// Cache is the configuration with which Signers are watched: with the
	// identity of the cache that all controllers share. It needs get, list and
	// watch on signers.
	Cache *rest.Config
	// API is the configuration with which Secrets in Namespace are watched,
	// with the controller's own identity. Client writes with the same identity,
	// which needs create and update on secrets, and update on signers/status.
	API    *rest.Config
	Client client.Client
	// Namespace is where the Secrets of CAs are.
	Namespace string
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Signers is updated with the signers.
	Signers *declared.Set
	// BuiltIn is the CA of the built-in signers, or nil.
	BuiltIn CA
	// Issuing configures the signatures of the signers.
	Issuing pki.Issuing
	// Honoured are the CAs of the API's own clients, if they are known.
	Honoured signer.Honoured
	// Revoked, if not nil, has the revoked certificates: this process signs revocation lists.
	Revoked *revocation.Index
	// Taken returns what other signer signs for a name, or "". It can be nil.
	Taken func(signerName string) string
	// Settings are the user's settings.
	Settings Settings
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what happened to signers.
	Events events.EventRecorder
	// Metrics, if not nil, is where the signers' metrics are registered.
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
