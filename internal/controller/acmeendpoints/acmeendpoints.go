// Package acmeendpoints says whether the endpoints and external keys of the ACME
// server work, and makes the Secrets of keys.
package acmeendpoints

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/facts"
	"github.com/certplane/certplane/internal/notify"
	"github.com/certplane/certplane/internal/worker"
)

// Name is the controller's name on the command line, and in managed fields.
const Name = "acme-endpoints"

// Server is what is known of the ACME server.
type Server struct {
	// ExternalURL is the base of its URLs, https://HOST[:PORT]; empty if no server
	// is configured.
	ExternalURL string
	// Trust returns the roots by which clients know its certificate, in PEM, and the
	// fingerprint of the first, as SHA256:<hexadecimal digits>; nothing if they are not
	// known. It can be nil.
	Trust func() (fingerprint string, roots []byte)
	// WaitsFor returns what its first certificate waits for, empty if there is one, and
	// NextWaitsFor what the next one does, empty if for nothing. Subscribe has a function called
	// when Trust or one of them change. They can be nil.
	WaitsFor, NextWaitsFor func() string
	Subscribe              func(changed func(struct{})) (cancel func())
	// Skew returns how far the clock of another process of the server is off. It can be
	// nil.
	Skew func() time.Duration
	// Requester is the username of the account that acts as ServiceAccounts, and
	// Reader that of the one that reads the Secrets of external keys.
	Requester, Reader string
	// EverythingIsApproved says that all CertificateRequests are approved, whoever
	// makes them.
	EverythingIsApproved bool
	// PendingRequestsFor is after which time requests that wait are deleted; zero if
	// that is not known.
	PendingRequestsFor time.Duration
	// ApprovalsSealed reports whether the server records who approves requests. It
	// can be nil.
	ApprovalsSealed func() bool
}

// Config is what the controller needs to run.
type Config struct {
	// Client is the controller's own identity. It needs update on
	// acmeendpoints/status and acmeexternalkeys/status, create on secrets, create on
	// subjectaccessreviews, and create, get, list and update on clustertrustbundles.
	Client client.Client
	Server Server
	// Bundles, if not nil, is a cache of the controller's own, for the metadata of
	// clustertrustbundles, which it needs list and watch on: their changes are followed.
	Bundles cache.Cache
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Rand makes keys.
	Rand io.Reader
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records that Secrets were made.
	Events events.EventRecorder
}

const (
	timeout = time.Minute
	// The first and the longest pause after errors.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// lookAgain is when rights and Secrets are looked at again, of which nothing tells.
	lookAgain = 5 * time.Minute
	// soonest and soon are the shortest and the longest time after which what is not
	// ready is looked at again.
	soonest = time.Second
	soon    = 30 * time.Second
	// countAgain is how long changes of accounts wait until these are counted.
	countAgain = 30 * time.Second
)

type reconciler struct {
	Config
	cache   cache.Cache
	facts   *facts.Facts
	indexed bool // only work uses it
	// bundles reports changed trust bundles: which endpoint one is of, empty if of a
	// signer.
	bundles notify.List[string]
}

// Add adds the controller to mgr, whose cache it reads. It works while the API has
// AcmeEndpoints.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	r := &reconciler{Config: cfg, cache: mgr.GetCache(), facts: facts.New(mgr.GetCache())}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding what looks after AcmeEndpoints: %w", err)
	}
	if cfg.Bundles == nil {
		return nil
	}
	if err := mgr.Add(manager.RunnableFunc(r.followBundles)); err != nil {
		return fmt.Errorf("adding what follows trust bundles: %w", err)
	}
	return nil
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "acmeendpoints", r.Versions).While(ctx, Name, "Looking after AcmeEndpoints", r.work)
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	if err := r.index(ctx); err != nil {
		return err
	}
	endpoints, err := r.endpointWorker(ctx)
	if err != nil {
		return err
	}
	keys, err := r.keyWorker(ctx)
	if err != nil {
		return err
	}
	return worker.Run(ctx, endpoints, keys)
}

func (r *reconciler) endpointWorker(ctx context.Context) (worker.Part, error) {
	endpoints, err := worker.New(ctx, Name, reconcile.Func(r.reconcileEndpoint), worker.Options{FirstPause: firstPause, LastPause: lastPause, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	changed := predicate.GenerationChangedPredicate{}
	all := handler.EnqueueRequestsFromMapFunc(r.allEndpoints)
	for _, watch := range []source.Source{
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeEndpoint{}, &handler.EnqueueRequestForObject{}, changed),
		source.Kind[client.Object](r.cache, &v1alpha1.Signer{}, all, predicate.ResourceVersionChangedPredicate{}),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeAccount{}, later(endpointOfAccount), comesAndGoes()),
		source.Func(r.whenServerChanges), source.Func(r.whenBundlesChange),
	} {
		if err := endpoints.Watch(watch); err != nil {
			return nil, fmt.Errorf("watching for AcmeEndpoints: %w", err)
		}
	}
	return endpoints, nil
}

func (r *reconciler) keyWorker(ctx context.Context) (worker.Part, error) {
	keys, err := worker.New(ctx, Name+"-keys", reconcile.Func(r.reconcileKey), worker.Options{FirstPause: firstPause, LastPause: lastPause, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	for _, watch := range []source.Source{
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeExternalKey{}, &handler.EnqueueRequestForObject{}, predicate.ResourceVersionChangedPredicate{}),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeEndpoint{}, handler.EnqueueRequestsFromMapFunc(r.keysOfEndpoint), predicate.GenerationChangedPredicate{}),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeAccount{}, later(keyOfAccount), comesAndGoes()),
	} {
		if err := keys.Watch(watch); err != nil {
			return nil, fmt.Errorf("watching for AcmeExternalKeys: %w", err)
		}
	}
	return keys, nil
}
