// Package sign runs one signer: it answers approved CertificateSigningRequests
// with certificates, or says on them why not.
package sign

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/metrics"
	"github.com/certplane/certplane/internal/turns"
)

// CA is where a signer's CA comes from.
type CA interface {
	// Current returns the CA with which to sign now. It is called for every
	// certificate and must be fast. An error delays certificates until it
	// goes away; it is logged, not shown to requesters.
	Current() (*pki.Authority, error)
}

// Changes tells when what requests wait for has changed.
type Changes interface {
	// Subscribe has changed called with what tells whether an approved request may
	// have waited for it, until cancel is called.
	Subscribe(changed func(waited func(*certificatesv1.CertificateSigningRequest) bool)) (cancel func())
}

// Config is what a signer needs to run.
type Config struct {
	// SignerName chooses the signer by its name in spec.signerName.
	// Empty: kubernetes.io/kube-apiserver-client.
	SignerName string
	// Client is the signer's own identity at the API. It needs get on
	// certificatesigningrequests, update on their status and sign on the
	// signer. It must read past caches.
	Client client.Client
	// CA has the signer's CA.
	CA CA
	// Alone has certificates without the CAs above.
	Alone bool
	// Changes, if there is one, tells of requests that can be answered now.
	Changes Changes
	// Delegate, if there is one, signs instead of a CA. Then SignerName can be
	// any name, also that of all signers of a domain, example.com/*.
	Delegate signer.Sign
	// Ours, if there is one, tells which requests are for this signer, by
	// their spec.signerName. Nil: those for SignerName.
	Ours func(signerName string) bool
	// Several says that SignerName stands for several signers, whose names are
	// in the requests: events and metrics tell them apart.
	Several bool
	// Answered, if there is one, is called with each final answer that is stored,
	// and when that was.
	Answered func(signerName string, issued bool, at time.Time)
	// Settings are the user's.
	Settings Settings
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
	// Events, if there is one, tells of what happened in the signer's name.
	Events events.EventRecorder
	// IssuedEvent is the reason of Events about certificates; empty: Issued.
	IssuedEvent string
	// AwaitedEvent is the reason of Events about requests that wait for their
	// approval; empty: there are none.
	AwaitedEvent string
	// Account is whom events regard that are about the signer and no request:
	// its service account. Nil: there are no such events.
	Account *corev1.ObjectReference
	// Metrics, if there is one, gets the signer's metrics. Signers that share
	// it share the metrics.
	Metrics prometheus.Registerer
}

// Add adds a signer to mgr, whose cache it reads.
func Add(mgr ctrl.Manager, cfg Config) error {
	r, err := newReconciler(mgr.GetCache(), cfg)
	if err != nil {
		return err
	}
	if cfg.Delegate == nil {
		if err := mgr.Add(r.watch(cfg)); err != nil {
			return fmt.Errorf("adding the watch over the CA: %w", err)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName(cfg.SignerName)).
		Watches(&certificatesv1.CertificateSigningRequest{}, turns.New(r.clock), builder.WithPredicates(r.predicate())).
		WatchesRawSource(r.retryWith(cfg.CA)).
		WatchesRawSource(r.retryAfter(cfg.Changes)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: cfg.Settings.withDefaults().Concurrency,
			RateLimiter:             backOff(),
			NewQueue:                newQueue(cfg.SignerName, cfg.Metrics),
			ReconciliationTimeout:   time.Minute,
			// Names are unique in a manager; a process can have several.
			SkipNameValidation: ptr.To(true),
		}).
		Complete(r)
}

func newReconciler(cache client.Reader, cfg Config) (*reconciler, error) {
	if cfg.SignerName == "" {
		cfg.SignerName = certificatesv1.KubeAPIServerClientSignerName
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Ours == nil {
		cfg.Ours = func(signerName string) bool { return signerName == cfg.SignerName }
	}
	sign, err := cfg.sign()
	if err != nil {
		return nil, err
	}
	if err := cfg.Settings.withDefaults().Validate(); err != nil {
		return nil, err
	}
	counts, err := metrics.New(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of signer %s: %w", cfg.SignerName, err)
	}
	if !cfg.Several {
		counts.Begin(cfg.SignerName)
	}
	r := &reconciler{
		ours: cfg.Ours, sign: sign, cache: cache, clock: cfg.Clock,
		reporter: reporter{
			signerName: cfg.SignerName, several: cfg.Several, answered: cfg.Answered, metrics: counts,
			events: cfg.Events, issuedEvent: cmp.Or(cfg.IssuedEvent, "Issued"), awaitedEvent: cfg.AwaitedEvent,
		},
	}
	r.requests = answer.SigningRequests(cfg.Client, "", cfg.Clock, func(c *csr) bool { return actionable(c, r.ours) })
	return r, nil
}

// sign returns what signs.
func (cfg Config) sign() (signer.Sign, error) {
	if cfg.Delegate != nil {
		return cfg.Delegate, nil
	}
	profile, err := signer.Lookup(cfg.SignerName)
	if err != nil {
		return nil, err
	}
	profile.Alone = cfg.Alone
	return signer.Local(profile.With(limits(cfg.Settings.For(cfg.SignerName))), cfg.CA.Current, rand.Reader), nil
}

// watch returns what looks at the signer's CA while nobody needs it.
func (r *reconciler) watch(cfg Config) *caWatch {
	return &caWatch{
		signerName: r.signerName,
		ca:         cfg.CA,
		clock:      r.clock,
		warnBefore: cfg.Settings.withDefaults().WarnBefore.Duration,
		metrics:    r.metrics,
		events:     cfg.Events,
		regarding:  cfg.Account,
	}
}

func limits(s SignerSettings) signer.Limits {
	return signer.Limits{MaxDuration: s.MaxDuration.Duration, MinRSABits: s.MinRSABits, Strict: s.Strict}
}

// controllerName is csrsigning-kubelet-client and the like: the name in logs
// and in the metrics of work queues.
func controllerName(signerName string) string { return "csrsigning-" + shortName(signerName) }

// predicate keeps out of the queue what there is nothing to do for.
func (r *reconciler) predicate() predicate.Predicate {
	wanted := func(o client.Object) bool {
		csr, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && actionable(csr, r.ours)
	}
	awaited := func(o client.Object) bool {
		csr, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && r.awaits(csr)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return wanted(e.Object) || awaited(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return wanted(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return wanted(e.Object) },
	}
}
