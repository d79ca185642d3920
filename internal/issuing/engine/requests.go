package engine

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/process/worker"
)

// Requests answers the requests of one kind that refer to certain issuers. T is
// the type of the requests.
type Requests[T client.Object] struct {
	Work
	// Cache holds the requests and the issuers.
	Cache cache.Cache
	Clock clock.PassiveClock
	// New returns an empty request, NewList an empty list of them.
	New     func() T
	NewList func() client.ObjectList
	// Namespaced is set if the requests to an issuer with a namespace are in its
	// namespace.
	Namespaced bool
	// Issuers are the kinds of issuers whose changes wake requests.
	Issuers []IssuerKind[T]
	// Order decides which of several requests is next.
	Order handler.EventHandler
	// OwnPace means that a request that waits for its certificate is not tried
	// again because it was changed, by the controller's own writes either.
	OwnPace bool

	// Due returns the next step for a request: None if it refers to other
	// issuers.
	Due func(T) requests.Step
	// Begin begins an attempt to answer a request.
	Begin func(T) Attempt
	// Remind returns what to tell about a request that waits for others: with
	// the step Await or External.
	Remind func(T, requests.Step) Reminder
	// Recorder records reminders; nil means none.
	Recorder events.EventRecorder
	// Note is called with each outcome of an attempt, before it is stored.
	Note func(T, outcome.Outcome)
	// Forget is called for a request that was deleted or is finished.
	Forget func(types.NamespacedName)
}

// IssuerKind is a kind of issuers whose changes wake the requests to them.
type IssuerKind[T client.Object] struct {
	// Object is an empty issuer.
	Object client.Object
	// Refers reports whether a request in the issuer's namespace refers to an
	// issuer of the kind.
	Refers func(request T, issuer client.Object) bool
	// Changes are the events of issuers that matter to their requests.
	Changes []predicate.Predicate
}

// Attempt is one attempt to answer an approved request.
type Attempt interface {
	// Checks are the conditions that must hold before the issuer signs, in this order.
	Checks() []Check
	// Sign asks the issuer.
	Sign(ctx context.Context) outcome.Outcome
	// Put stores an outcome and reports it. It returns when to try again.
	Put(ctx context.Context, o outcome.Outcome) (reconcile.Result, error)
}

// Check returns the outcome of a request that must not be signed now, otherwise
// nil. Its error means that this is not known: it is outcome.ErrSuperseded, which
// ends the attempt, or temporary.
type Check func(ctx context.Context) (*outcome.Outcome, error)

// Reminder is an Event about a request that waits for others for longer than
// requests.ApprovalGrace.
type Reminder struct {
	// Since is when the wait began.
	Since        time.Time
	Reason, Text string
}

// Denied is the outcome of a request that an approver denied. It causes no Event: the
// approver records one.
var Denied = outcome.Outcome{State: outcome.Denied, Message: requests.MessageDenied}

// Run answers requests until ctx ends.
func (r *Requests[T]) Run(ctx context.Context) error {
	watches := []source.Source{source.Kind[client.Object](r.Cache, r.New(), r.Order, r.Actionable())}
	for _, kind := range r.Issuers {
		wake := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, issuer client.Object) []reconcile.Request {
			return r.waiting(ctx, kind, issuer)
		})
		watches = append(watches, source.Kind(r.Cache, kind.Object, wake, kind.Changes...))
	}
	return r.run(ctx, r, watches...)
}

// Actionable keeps requests that need no action out of the queue. A request that
// waits for its approval is reported once, not whenever a user sets a label.
func (r *Requests[T]) Actionable() predicate.Predicate {
	due := predicate.NewPredicateFuncs(func(o client.Object) bool { return r.dueOf(o) != requests.None })
	return predicate.Funcs{
		CreateFunc: due.Create, DeleteFunc: due.Delete, GenericFunc: due.Generic,
		UpdateFunc: func(e event.UpdateEvent) bool {
			now := r.dueOf(e.ObjectNew)
			same := now == r.dueOf(e.ObjectOld) && e.ObjectNew.GetUID() == e.ObjectOld.GetUID()
			return now != requests.None && !(same && (now == requests.Await || now == requests.Sign && r.OwnPace))
		},
	}
}

func (r *Requests[T]) dueOf(o client.Object) requests.Step {
	if request, ok := o.(T); ok {
		return r.Due(request)
	}
	return requests.None
}

// waiting returns the requests that wait for a certificate of an issuer.
func (r *Requests[T]) waiting(ctx context.Context, kind IssuerKind[T], issuer client.Object) []reconcile.Request {
	list, options := r.NewList(), []client.ListOption{client.UnsafeDisableDeepCopy}
	if r.Namespaced { // the cache finds requests without a namespace by none
		options = append(options, client.InNamespace(issuer.GetNamespace()))
	}
	if err := r.Cache.List(ctx, list, options...); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the requests that may wait for an issuer; they are retried after their back-off")
		return nil
	}
	var waiting []reconcile.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error { // a list of structs has items
		if request, ok := o.(T); ok && r.Due(request) == requests.Sign && kind.Refers(request, issuer) {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)})
		}
		return nil
	})
	return waiting
}

// Reconcile takes the next step for one request.
func (r *Requests[T]) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	request := r.New()
	if err := r.Cache.Get(ctx, key.NamespacedName, request); err != nil {
		if apierrors.IsNotFound(err) {
			r.Forget(key.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch due := r.Due(request); due {
	case requests.Deny:
		return r.Begin(request).Put(ctx, Denied)
	case requests.Await, requests.External:
		return r.remind(r.Remind(request, due), request), nil
	case requests.Sign:
		return r.sign(ctx, request)
	}
	r.Forget(key.NamespacedName)
	return reconcile.Result{}, nil
}

// remind reports that a request waits for others, once that takes long.
func (r *Requests[T]) remind(about Reminder, request T) reconcile.Result {
	if wait := about.Since.Add(requests.ApprovalGrace).Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	outcome.Report{Object: request, Recorder: r.Recorder}.Await(about.Reason, about.Text)
	return reconcile.Result{}
}

func (r *Requests[T]) sign(ctx context.Context, request T) (reconcile.Result, error) {
	attempt := r.Begin(request)
	o, err := outcomeOf(ctx, attempt)
	switch {
	case errors.Is(err, outcome.ErrSuperseded):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	case issueoncreate.Is(ctx) && !o.Final(): // it is tried again when it is stored
		r.Forget(client.ObjectKeyFromObject(request))
		return reconcile.Result{}, nil
	}
	r.Note(request, o)
	return attempt.Put(ctx, o)
}

func outcomeOf(ctx context.Context, attempt Attempt) (outcome.Outcome, error) {
	for _, check := range attempt.Checks() {
		o, err := check(ctx)
		switch {
		case err != nil:
			return outcome.Outcome{}, err
		case o != nil:
			return *o, nil
		}
	}
	return attempt.Sign(ctx), nil
}
