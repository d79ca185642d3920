// Package requestsign answers requests to Issuers and ClusterIssuers with
// certificates, or writes into their status why not.
package requestsign

import (
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/collector/certmetrics"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/secretwatch"
	"github.com/certplane/certplane/internal/signer/metrics"
	"github.com/certplane/certplane/internal/turns"
	"github.com/certplane/certplane/internal/worker"
)

// Name is the controller's name on the command line.
const Name = "certificaterequests"

// Component is the controller's own name in managed fields and Events. For an
// issuer that has a type, the Component of that type is used.
const Component = "cert-manager-" + Name

// Config is what the controller needs to run.
type Config struct {
	// Client is the controller's own identity. It needs get on secrets and
	// certificaterequests, and update and patch on the status of these. It must
	// read past caches.
	Client client.Client
	// Secrets notifies of changes.
	Secrets *secretwatch.Watcher
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// ClusterResources is the namespace of the Secrets of ClusterIssuers.
	ClusterResources string
	// Rules apply to all CA issuers.
	Rules issuing.Rules
	// Issuing is what issuers sign with in addition to their keys.
	Issuing pki.Issuing
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, record what happened, in the name of the Component of
	// an issuer's type.
	Events map[certmanager.IssuerType]events.EventRecorder
	// Metrics, if not nil, is where the metrics of signers are registered.
	Metrics prometheus.Registerer
	// Syncs, if not nil, are the metrics of the work.
	Syncs *certmetrics.Metrics
}

// Add adds the controller to mgr, whose cache it reads. It works while the API
// has CertificateRequests.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	counts, err := metrics.New(cfg.Metrics)
	if err != nil {
		return fmt.Errorf("registering the metrics of issuers: %w", err)
	}
	r := &reconciler{
		Config: cfg, cache: mgr.GetCache(), metrics: counts, waiting: newWaiting(),
		issuers: issuertypes.New(issuing.Config{Client: cfg.Client, ClusterResources: cfg.ClusterResources, Rules: cfg.Rules, Issuing: cfg.Issuing}),
	}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding what answers CertificateRequests: %w", err)
	}
	return nil
}

type reconciler struct {
	Config
	cache   cache.Cache
	metrics *metrics.Metrics
	waiting *waiting
	issuers issuertypes.Issuers
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(cmv1.SchemeGroupVersion, "certificaterequests", r.Versions).While(ctx, Name, "Answering CertificateRequests", r.work)
}

// The first and the longest wait before the next attempt for a request that
// could not be answered, unless a change triggers it earlier.
const (
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
)

// concurrency is how many requests are answered at the same time.
const concurrency = 5

type queue = worker.Queue

func (r *reconciler) work(ctx context.Context, _ string) error {
	signing, err := worker.New(ctx, Name, r.Syncs.Count(Name, r), worker.Options{
		Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: time.Minute,
	})
	if err != nil {
		return err
	}
	asking := handler.EnqueueRequestsFromMapFunc(r.asking)
	err = errors.Join(
		signing.Watch(source.Kind[client.Object](r.cache, &cmv1.CertificateRequest{}, turns.New(r.Clock), actionable())),
		signing.Watch(source.Kind[client.Object](r.cache, &cmv1.Issuer{}, asking)),
		signing.Watch(source.Kind[client.Object](r.cache, &cmv1.ClusterIssuer{}, asking)),
		signing.Watch(source.Func(r.waiting.follow(issuing.Changes{Secrets: r.Secrets, Cache: r.cache, Client: r.Client, Versions: r.Versions, Watches: issuertypes.Watches()}))),
	)
	if err != nil {
		return err
	}
	return signing.Start(ctx)
}

// actionable keeps requests that need no action out of the queue.
func actionable() predicate.Predicate {
	due := predicate.NewPredicateFuncs(func(o client.Object) bool {
		cr, ok := o.(*cmv1.CertificateRequest)
		return ok && requests.Due(cr) != requests.None
	})
	return predicate.Funcs{
		CreateFunc: due.Create, DeleteFunc: due.Delete, GenericFunc: due.Generic,
		UpdateFunc: func(e event.UpdateEvent) bool { return due.Update(e) && !stillAwaits(e.ObjectOld, e.ObjectNew) },
	}
}

// stillAwaits reports whether a request is as undecided after a change as
// before: its requester is notified once, not whenever a user sets a label.
func stillAwaits(before, after client.Object) bool {
	old, ok := before.(*cmv1.CertificateRequest)
	cr, same := after.(*cmv1.CertificateRequest)
	return ok && same && old.UID == cr.UID && requests.Due(old) == requests.Await && requests.Due(cr) == requests.Await
}

// asking returns the requests that wait for a certificate of an issuer.
func (r *reconciler) asking(ctx context.Context, issuer client.Object) []reconcile.Request {
	list := &cmv1.CertificateRequestList{}
	err := r.cache.List(ctx, list, client.InNamespace(issuer.GetNamespace()), client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the requests that may wait for an issuer; their back-off brings them back")
		return nil
	}
	var waiting []reconcile.Request
	for i := range list.Items {
		cr := &list.Items[i]
		if requests.Due(cr) == requests.Sign && refersTo(cr.Spec.IssuerRef, issuer) {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cr)})
		}
	}
	return waiting
}
