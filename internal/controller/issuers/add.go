// Package issuers writes on Issuers and ClusterIssuers whether they can sign.
package issuers

import (
	"context"
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
)

// Config is the configuration of the controller.
type Config struct {
	// Config contains the dependencies of issuers. Client also needs update on the status
	// of the kind.
	issuing.Config
	// Issuers are the issuers of all types.
	Issuers issuertypes.Issuers
	// Kind is Issuer or ClusterIssuer.
	Kind string
	// KnowCA, if not nil, is called with the CA with which an issuer signs, or nil if it
	// has no usable CA.
	KnowCA func(certmanager.Signer, *pki.Authority)
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what has changed.
	Events events.EventRecorder
	// Metrics, if not nil, are the metrics of the objects and of the work on
	// them.
	Metrics *certmetrics.Metrics
}

// name returns the controller's name: the plural of the kind.
func (c Config) name() string {
	if c.Kind == cmv1.ClusterIssuerKind {
		return "clusterissuers"
	}
	return "issuers"
}

// Component returns the name with which the controller writes to objects of a
// kind and records Events about them.
func Component(kind string) string { return "cert-manager-" + Config{Kind: kind}.name() }

// Add adds the controller to mgr, whose cache it reads. It works while the API
// has the kind.
func Add(mgr ctrl.Manager, cfg Config) error {
	if _, err := certmanager.NewIssuer(cfg.Kind); err != nil {
		return err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if err := mgr.Add(&reconciler{Config: cfg, cache: mgr.GetCache()}); err != nil {
		return fmt.Errorf("adding the controller of %s: %w", cfg.name(), err)
	}
	return nil
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(cmv1.SchemeGroupVersion, r.name(), r.Versions).While(ctx, r.name(), "Looking after "+r.name(), r.work)
}

// byNeed indexes the issuers by the objects that they need: each write of any Secret is
// looked up. anyNeed finds those that need any.
const byNeed, anyNeed = "need", "any"

func keyOf(need issuing.Reference) string { return need.Kind.String() + " " + need.String() }

func (r *reconciler) index(ctx context.Context) error {
	if r.indexed {
		return nil
	}
	of, err := certmanager.NewIssuer(r.Kind)
	if err != nil {
		return err
	}
	err = r.cache.IndexField(ctx, of, byNeed, func(o client.Object) []string {
		var needs []string
		for _, need := range r.Issuers.Needs(o.(cmv1.GenericIssuer), issuing.Request{}) {
			needs = append(needs, keyOf(need), anyNeed)
		}
		return needs
	})
	if err != nil {
		return fmt.Errorf("indexing %s: %w", r.name(), err)
	}
	r.indexed = true
	return nil
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	if err := r.index(ctx); err != nil {
		return err
	}
	checking := &engine.Issuers[cmv1.GenericIssuer]{
		Work: engine.Work{
			Name: r.name(), Count: r.Metrics.Count, Wakes: []source.Source{source.Func(r.followNeeds)},
			Options: worker.Options{Timeout: 2 * time.Minute},
		},
		Cache: r.cache, Clock: r.Clock, New: r.new,
		Changes: predicate.ResourceVersionChangedPredicate{}, // a status that another client has written is corrected too
		Check:   r.check, Write: r.write, Tell: r.tell,
	}
	defer r.Metrics.ShowIssuers(r.known)()
	return checking.Run(ctx)
}

// followNeeds queues the issuers that need an object that has changed.
func (r *reconciler) followNeeds(ctx context.Context, q worker.Queue) error {
	watches := slices.DeleteFunc(r.Issuers.Watches(), func(w issuing.Watch) bool { return w.RequestsOnly })
	changes := issuing.Changes{Config: r.Config.Config, Cache: r.cache, Watches: watches}
	changes.Run(ctx,
		func(object issuing.Reference) { r.enqueue(ctx, q, keyOf(object)) },
		func() { r.enqueue(ctx, q, anyNeed) },
	)
	return nil
}

// enqueue queues the issuers that byNeed has.
func (r *reconciler) enqueue(ctx context.Context, q worker.Queue, need string) {
	needing, err := r.all(ctx, client.MatchingFields{byNeed: need})
	if err != nil {
		worker.CannotWake(ctx, err, "Cannot list the issuers that need a changed object")
		return
	}
	for _, issuer := range needing {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(issuer)})
	}
}

// known returns the existing issuers, for metrics. If they cannot be listed
// now, they are listed at the next look.
func (r *reconciler) known(ctx context.Context) []cmv1.GenericIssuer {
	all, err := r.all(ctx)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Cannot list issuers for metrics", "error", err.Error())
	}
	return all
}

// all returns the issuers of the kind that options select, which must not be modified.
func (r *reconciler) all(ctx context.Context, options ...client.ListOption) ([]cmv1.GenericIssuer, error) {
	var list client.ObjectList = &cmv1.IssuerList{}
	if r.Kind == cmv1.ClusterIssuerKind {
		list = &cmv1.ClusterIssuerList{}
	}
	err := r.cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...)
	var all []cmv1.GenericIssuer
	_ = meta.EachListItem(list, func(o runtime.Object) error { // a list of structs has items
		all = append(all, o.(cmv1.GenericIssuer))
		return nil
	})
	return all, err
}
