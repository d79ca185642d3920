// Package issue issues the certificates that Certificates of cert-manager.io
// request, stores them in Secrets, and keeps them up to date.
//
// One worker does what has several names in the API: each step writes with the
// field manager, and records Events with the component, that users and their
// tools know it by.
package issue

import (
	"context"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/process/backoff"
	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
)

// Config is the configuration of the controller.
type Config struct {
	// Cache is the configuration with which Certificates and their requests are
	// watched: with the identity of the cache that all controllers share. It
	// needs get, list and watch on certificates and certificaterequests.
	Cache *rest.Config
	// API is the configuration for watching the Secrets with next keys. The cache keeps
	// only their metadata. Secrets notifies of changes of all other Secrets, and Client
	// reads and writes. All three use the same identity, which needs get, list, watch,
	// create, patch and delete on secrets, get on certificates, update on
	// certificates/status, create, get and delete on certificaterequests, and, for renewal
	// information, get on issuers and clusterissuers. Client must read past caches.
	API     *rest.Config
	Secrets *changewatch.Watcher
	Client  client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Settings are the user's settings.
	Settings CertificateSettings
	// RenewalInfo asks an ACME issuer when a certificate should be renewed; certID is as in
	// RFC 9773 section 4.1. Info is nil if the CA provides none. If RenewalInfo is nil, the
	// controller does not query CAs.
	RenewalInfo func(ctx context.Context, issuer cmv1.GenericIssuer, certID string) (*rfc8555.RenewalInfo, error)
	// Revoked returns the known revocations, once all were read. Nil means that none are
	// followed.
	Revoked func(context.Context) (*revocation.Index, error)
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Random chooses times in the windows of CAs; nil means uniformly random ones.
	Random backoff.Jitter
	// Events returns the recorder for Events in the name of a component. It can
	// be nil.
	Events func(component string) events.EventRecorder
	// Metrics, if not nil, are the metrics of the objects and of the work on
	// them.
	Metrics *certmetrics.Metrics
}

// Add adds the controller to mgr. It works while the API has Certificates.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Random == nil {
		cfg.Random = backoff.Random
	}
	if err := mgr.Add(&controller{Config: cfg, recorders: recorders(cfg.Events)}); err != nil {
		return fmt.Errorf("adding the issuance of Certificates: %w", err)
	}
	return nil
}

// controller works while the API has Certificates.
type controller struct {
	Config
	recorders map[actor]events.EventRecorder
}

// Start implements manager.Runnable.
func (c *controller) Start(ctx context.Context) error {
	return worker.OneVersion(cmv1.SchemeGroupVersion, "certificates", c.Versions).While(ctx, "certificates", "Issuing Certificates", c.work)
}
