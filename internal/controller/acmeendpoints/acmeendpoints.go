// Package acmeendpoints reports in their status whether the endpoints and external keys of
// the ACME server work, and creates the Secrets of keys.
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
	"github.com/certplane/certplane/internal/acme/acmeserver/facts"
	"github.com/certplane/certplane/internal/process/notify"
	"github.com/certplane/certplane/internal/process/worker"
)

// Name is the controller's name on the command line, and in managed fields.
const Name = "acme-endpoints"

// Server describes the ACME server.
type Server struct {
	// ExternalURL is the base of its URLs, https://HOST[:PORT]; empty if no server
	// is configured.
	ExternalURL string
	// Trust returns the roots of the server's certificate, in PEM, and the fingerprint of
	// the first one, as SHA256:<hexadecimal digits>; nothing if they are not known. It can
	// be nil.
	Trust func() (fingerprint string, roots []byte)
	// WaitsFor returns a phrase for the condition that the server's first certificate waits
	// for, NextWaitsFor a phrase for the next certificate; empty if it does not wait.
	// Subscribe registers a function that is called when one of these or Trust changes. All
	// three can be nil.
	WaitsFor, NextWaitsFor func() string
	Subscribe              func(changed func(struct{})) (cancel func())
	// Skew returns the clock skew of another process of the server. It can be nil.
	Skew func() time.Duration
	// Requester is the username of the account that acts as ServiceAccounts, and Reader the
	// username of the account that reads the Secrets of external keys.
	Requester, Reader string
	// EverythingIsApproved is true if a controller approves all CertificateRequests, from
	// any requester.
	EverythingIsApproved bool
	// PendingRequestsFor is the time after which pending requests are deleted; zero if
	// unknown.
	PendingRequestsFor time.Duration
	// ApprovalsSealed reports whether the server records who approves requests. It
	// can be nil.
	ApprovalsSealed func() bool
}

// Config is the configuration of the controller.
type Config struct {
	// Client is the controller's own identity. It needs update on
	// acmeendpoints/status and acmeexternalkeys/status, create on secrets, create on
	// subjectaccessreviews, and create, get, list and update on clustertrustbundles.
	Client client.Client
	Server Server
	// Bundles, if not nil, is the controller's own cache for the metadata of
	// clustertrustbundles, through which it follows their changes. It needs list and watch
	// on them.
	Bundles cache.Cache
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Rand is the source of randomness for new keys.
	Rand io.Reader
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records Events about created Secrets.
	Events events.EventRecorder
}

const (
	timeout = time.Minute
	// The first and the longest pause after errors.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// lookAgain is the time between two checks of rights and Secrets, whose changes the
	// controller does not watch.
	lookAgain = 5 * time.Minute
	// soonest and soon are the shortest and the longest time between two checks of an
	// object that is not ready.
	soonest = time.Second
	soon    = 30 * time.Second
	// countAgain is the delay between a change of accounts and their next count.
	countAgain = 30 * time.Second
)

type reconciler struct {
	Config
	cache   cache.Cache
	facts   *facts.Facts
	indexed bool // only work uses it
	// bundles reports changed trust bundles: the endpoint of the bundle, or an empty string
	// for a signer's bundle.
	bundles notify.List[string]
}

// Add adds the controller to mgr, whose cache it reads. It works while the API has
// AcmeEndpoints and Signers.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	r := &reconciler{Config: cfg, cache: mgr.GetCache(), facts: facts.New(mgr.GetCache())}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding the AcmeEndpoint controllers: %w", err)
	}
	if cfg.Bundles == nil {
		return nil
	}
	if err := mgr.Add(manager.RunnableFunc(r.followBundles)); err != nil {
		return fmt.Errorf("adding the watch of trust bundles: %w", err)
	}
	return nil
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "acmeendpoints", r.Versions, "signers").While(ctx, Name, "Looking after AcmeEndpoints", r.work)
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
	changed := predicate.GenerationChangedPredicate{}
	all := handler.EnqueueRequestsFromMapFunc(r.allEndpoints)
	return worker.New(ctx, Name, reconcile.Func(r.reconcileEndpoint), worker.Options{FirstPause: firstPause, LastPause: lastPause, Timeout: timeout},
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeEndpoint{}, &handler.EnqueueRequestForObject{}, changed),
		source.Kind[client.Object](r.cache, &v1alpha1.Signer{}, all, predicate.ResourceVersionChangedPredicate{}),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeAccount{}, later(endpointOfAccount), comesAndGoes()),
		source.Func(r.whenServerChanges), source.Func(r.whenBundlesChange),
	)
}

func (r *reconciler) keyWorker(ctx context.Context) (worker.Part, error) {
	return worker.New(ctx, Name+"-keys", reconcile.Func(r.reconcileKey), worker.Options{FirstPause: firstPause, LastPause: lastPause, Timeout: timeout},
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeExternalKey{}, &handler.EnqueueRequestForObject{}, predicate.ResourceVersionChangedPredicate{}),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeEndpoint{}, handler.EnqueueRequestsFromMapFunc(r.keysOfEndpoint), predicate.GenerationChangedPredicate{}),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeAccount{}, later(keyOfAccount), comesAndGoes()),
	)
}
