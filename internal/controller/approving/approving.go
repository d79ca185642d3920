// Package approving decides about requests for certificates: as the certificate policies
// say, and about what these leave, by the rules of each approver. All approvers have one
// loop; each has its own account and rights.
package approving

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// Config is the configuration of each approver.
type Config struct {
	// Client is the approver's own identity at the API. Its rights are in the table of
	// package rights.
	Client client.Client
	// Policies, if not nil, decide first.
	Policies *policies.Policies
	// OnCreate, if not nil, also approves requests within the calls that create them.
	OnCreate *issueoncreate.Hub
	// Versions returns the resources of a version of the API. Approvers that only work
	// on CertificateSigningRequests do not need it.
	Versions worker.Lookup
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what was decided, and why something was not.
	Events events.EventRecorder
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c
}

// approver is the loop: it decides about the requests of one kind according to the
// policies, or by its rules.
type approver struct {
	Config
	rules
	kind *requestkind.Kind
	// cache has the requests. Its objects must not be modified.
	cache client.Reader
	// actor is the approver that applies the decisions of the policies; others leave that
	// to it.
	actor bool
	// owner is the approver in managed fields; empty for the name of the program.
	owner client.FieldOwner
	// conflictPause is how long to wait after another client has changed the object:
	// the cache has the change by then.
	conflictPause time.Duration
	// cannotWake is logged if the requests cannot be listed that policies have woken.
	cannotWake string
}

// rules are the decisions of an approver that need no person.
type rules struct {
	// takes reports whether a request waits for the approver.
	takes func(client.Object) bool
	// first, if not nil, decides before the policies are evaluated, unless done is false.
	first func(context.Context, *pass) (result reconcile.Result, done bool, err error)
	// left decides about a request that the policies leave.
	left func(context.Context, *pass, policies.Outcome) (reconcile.Result, error)
	// carry, if not nil, approves a request for which policies count earlier approvals.
	carry func(context.Context, *pass, policies.Outcome) (reconcile.Result, error)
	// failed returns what becomes of a decision that could not be written.
	failed func(context.Context, *pass, error) (reconcile.Result, error)
	// settled, if not nil, is called once a request does not wait for left any more.
	settled func(types.NamespacedName)
}

// pass is one pass over a request.
type pass struct {
	object     client.Object
	asked      request.Request
	conditions []quorum.Condition
	// order is the order of an ACME client, if the rules are the rules for orders.
	order *v1alpha1.AcmeOrder
}

// Reconcile decides about one request.
func (a *approver) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	object := a.kind.New()
	if err := a.cache.Get(ctx, key.NamespacedName, object, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			a.ended(key.NamespacedName)
		}
		a.forget(key.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	takes := a.takes(object)
	if !takes && !a.actor {
		a.forget(key.NamespacedName)
		return reconcile.Result{}, nil
	}
	p := &pass{object: object, asked: a.kind.View(object), conditions: a.kind.Conditions(object)}
	a.reportVotes(p)
	if issueoncreate.Is(ctx) { // nothing tells of its end later
		defer a.ended(key.NamespacedName)
	}
	if !takes {
		if denial := a.Policies.Events().Denial(p.asked, p.conditions); denial != nil {
			a.event(object, denial.Type, denial.Reason, denial.Message)
		}
		a.ended(key.NamespacedName)
		return reconcile.Result{}, nil
	}
	if a.first != nil {
		if result, done, err := a.first(ctx, p); done || err != nil {
			return result, err
		}
	}
	outcome := a.Policies.Next(ctx, p.asked, p.conditions)
	switch {
	case outcome.Leaves():
		return a.left(ctx, p, outcome)
	case a.carry != nil && outcome.Carried:
		return a.carry(ctx, p, outcome)
	}
	a.forget(key.NamespacedName)
	if a.actor {
		return a.act(ctx, p, outcome)
	}
	return reconcile.Result{RequeueAfter: outcome.After}, nil
}

func (a *approver) forget(key types.NamespacedName) {
	if a.settled != nil {
		a.settled(key)
	}
}

// decide approves or denies a request. report is called once that is stored.
func (a *approver) decide(ctx context.Context, p *pass, decision quorum.Condition, next reconcile.Result, report func()) (reconcile.Result, error) {
	decided := p.object.DeepCopyObject().(client.Object)
	decision.Status = string(corev1.ConditionTrue)
	if err := a.kind.Decide(decided, decision, a.Clock.Now()); err != nil {
		return reconcile.Result{}, nil //nolint:nilerr // it has been decided
	}
	return a.write(ctx, p, decided, next, report)
}

// write stores the conditions of a request, and then reports that.
func (a *approver) write(ctx context.Context, p *pass, changed client.Object, next reconcile.Result, report func()) (reconcile.Result, error) {
	var options []client.SubResourceUpdateOption
	if a.owner != "" {
		options = append(options, a.owner)
	}
	err := a.Client.SubResource(a.kind.Decision.Subresource).Update(ctx, changed, options...)
	switch {
	case apierrors.IsConflict(err):
		// This is neither an error nor news: the cache is about to catch up.
		return reconcile.Result{RequeueAfter: a.conflictPause}, nil
	case client.IgnoreNotFound(err) != nil:
		return a.failed(ctx, p, err)
	}
	a.forget(client.ObjectKeyFromObject(p.object))
	if err != nil {
		return reconcile.Result{}, nil //nolint:nilerr // the request is gone
	}
	report()
	return next, nil
}

func (a *approver) event(about client.Object, kind, reason, text string) {
	if a.Events != nil {
		a.Events.Eventf(about, nil, kind, reason, "Approve", "%s", eventtext.Fit(text))
	}
}

// reasonForbidden is the reason of the Event on requests that the API does not let an
// approver approve.
const reasonForbidden = "ApprovalForbidden"

// begins passes a request when it begins to wait. The fields of the request that the rules
// read never change after that, so later changes do not queue it again.
func begins(takes func(client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return takes(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return takes(e.ObjectNew) && (!takes(e.ObjectOld) || e.ObjectNew.GetUID() != e.ObjectOld.GetUID())
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return takes(e.Object) },
	}
}

// changes lets a request pass when it begins to wait, when its conditions change, as
// people may have approved it, and when it does not wait any more.
func changes(takes func(client.Object) bool) predicate.Predicate {
	passes := predicate.NewPredicateFuncs(takes)
	passes.UpdateFunc = func(e event.UpdateEvent) bool { return takes(e.ObjectNew) || takes(e.ObjectOld) }
	return passes
}

// addTo adds the loop to mgr as a controller of a name, for a kind that each API has.
func (a *approver) addTo(mgr ctrl.Manager, name string, arrivals predicate.Predicate, wakes func(client.Object) bool, concurrency int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		Watches(a.kind.New(), fairqueue.New(a.Clock), builder.WithPredicates(arrivals)).
		WatchesRawSource(source.Func(a.retryWithPolicies(wakes))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter:             backOff(),
			ReconciliationTimeout:   time.Minute,
		}).
		Complete(a)
}

// backOff limits retries after errors. It counts for each request separately: a
// flood of requests that have to wait does not slow down one that need not.
func backOff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 5*time.Minute)
}

// watch runs the loop until ctx ends, for a kind that the API has now. Requests are also
// approved while they are created.
func (a *approver) watch(ctx context.Context, name string, work reconcile.Reconciler, o worker.Options, sources ...source.Source) error {
	running, err := worker.New(ctx, name, work, o, append(sources, source.Func(a.retryWithPolicies(a.takes)))...)
	if err != nil {
		return err
	}
	a.OnCreate.Start(ctx, issueoncreate.Step{Resource: a.kind.Resource, Role: issueoncreate.Approve, Takes: a.takes, Reconciler: a})
	return running.Start(ctx)
}
