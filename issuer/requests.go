package issuer

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/process/worker"
)

// requestAPI is one of the two APIs for requests. T is the type of its requests.
type requestAPI[T client.Object] struct {
	schema.GroupVersionKind
	plural string
	// namespaced is set if the requests are in the namespaces of their issuers.
	namespaced bool
	new        func() T
	list       func() client.ObjectList
	// issuer returns the issuer that a request refers to; ok is false if it is
	// not one of ours.
	issuer func(ks kinds, request T) (issuer who, ok bool)
	// due returns what to do next, if a request is for one of our issuers.
	due func(request T) requests.Step
	// view returns what is requested.
	view func(request T) request.Request
	// awaits returns the reason and the text of the Event that an approval is
	// missing, and which permission the approver needs: an approver without that
	// permission reports nothing.
	awaits func(w who) (reason, text string)
	// answers returns how outcomes are stored on the requests for which waits
	// holds.
	answers func(c *controller, waits func(T) bool) outcome.Kind[T]
}

// requestWorker answers the requests of one API.
type requestWorker[T client.Object] struct {
	*controller
	api requestAPI[T]
	// failing are the requests for which Sign fails.
	failing *failing
}

// Start answers requests while the API serves their kind.
func (r requestWorker[T]) Start(ctx context.Context) error {
	resource := worker.OneVersion(r.api.GroupVersion(), r.api.plural, r.lookup)
	resource.Follow(ctx, "Answering "+r.api.Kind+"s", r.work)
	return nil
}

func (r requestWorker[T]) work(ctx context.Context, _ string) error {
	answering := &engine.Requests[T]{
		Work:  engine.Work{Name: r.api.plural + "-" + r.Name, Options: worker.Options{Concurrency: r.Concurrency}},
		Cache: r.cache, Clock: r.clock, Order: &handler.EnqueueRequestForObject{}, OwnPace: true, Namespaced: r.api.namespaced,
		New: r.api.new, NewList: r.api.list,
		Due: r.due, Begin: r.begin,
		Remind: r.remind, Recorder: r.events,
		Note:   func(of T, o outcome.Outcome) { r.failing.note(of, o, r.clock.Now()) },
		Forget: r.failing.end,
	}
	for _, k := range r.kinds {
		refers := func(of T, issuer client.Object) bool {
			w, ours := r.api.issuer(r.kinds, of)
			return ours && w == who{k, client.ObjectKeyFromObject(issuer)}
		}
		answering.Issuers = append(answering.Issuers, engine.IssuerKind[T]{Object: k.new(), Refers: refers, Changes: []predicate.Predicate{changesReadiness}})
	}
	return answering.Run(ctx)
}

func (r requestWorker[T]) due(of T) requests.Step {
	if _, ours := r.api.issuer(r.kinds, of); !ours {
		return requests.None
	}
	return r.api.due(of)
}

func (r requestWorker[T]) remind(of T, _ requests.Step) engine.Reminder {
	w, _ := r.api.issuer(r.kinds, of)
	reason, text := r.api.awaits(w)
	return engine.Reminder{Since: of.GetCreationTimestamp().Time, Reason: reason, Text: text}
}

// changesReadiness passes the events of an issuer that matter to its requests.
var changesReadiness = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(Issuer)
		after, alsoOK := e.ObjectNew.(Issuer)
		if !ok || !alsoOK {
			return false
		}
		was, wasOK := findIssuer(before, who{})
		is, isOK := findIssuer(after, who{})
		return wasOK != isOK || was.Message != is.Message
	},
}

// attempt is one attempt to answer a request.
type attempt[T client.Object] struct {
	requestWorker[T]
	of     T
	issuer who
	// request is the argument of Sign.
	request *Request
}

func (r requestWorker[T]) begin(of T) engine.Attempt {
	w, _ := r.api.issuer(r.kinds, of)
	return &attempt[T]{requestWorker: r, of: of, issuer: w}
}

// Checks implements engine.Attempt.
func (a *attempt[T]) Checks() []engine.Check {
	return []engine.Check{a.mayRefer, a.read, a.findIssuer, a.stillWaits}
}

// mayRefer checks whether the requester may use the issuer; one that may not
// need not wait for it. Requests in a namespace can name the issuers of their
// own namespace only. Without this permission, every requester of requests
// without a namespace could use the issuers of every namespace.
func (a *attempt[T]) mayRefer(ctx context.Context) (*outcome.Outcome, error) {
	if k := a.issuer.kind; !a.api.namespaced && k.namespaced && !a.AnybodyMayRefer {
		by := a.api.view(a.of).Requester
		allowed, err := issuing.MayRefer(ctx, a.client, by, authorizationv1.ResourceAttributes{
			Group: k.Group, Version: k.Version, Resource: k.plural, Verb: "reference", Namespace: a.issuer.Namespace, Name: a.issuer.Name,
		})
		switch {
		case err != nil:
			return nil, fmt.Errorf("asking whether %s may refer to %s: %w", by.Username, a.issuer, err)
		case !allowed:
			return new(notAllowed(a.issuer)), nil
		}
	}
	return nil, nil
}

func (a *attempt[T]) read(context.Context) (invalid *outcome.Outcome, _ error) {
	a.request, invalid = newRequest(a.api.view(a.of), a.DefaultDuration, a.MaxDuration)
	return invalid, nil
}

// findIssuer finds the issuer, which must be ready.
func (a *attempt[T]) findIssuer(ctx context.Context) (*outcome.Outcome, error) {
	found := a.issuer.kind.new()
	err := a.cache.Get(ctx, a.issuer.NamespacedName, found)
	if apierrors.IsNotFound(err) {
		o, _ := findIssuer(nil, a.issuer)
		return &o, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the %s %s: %w", a.issuer.kind.Kind, a.issuer.Name, err)
	}
	if o, ok := findIssuer(found, a.issuer); !ok {
		return &o, nil
	}
	if met, ok := a.faults.of(a.issuer, found, a.clock.Now()); ok {
		return new(a.blame(met)), nil
	}
	a.request.Issuer = found
	return nil, nil
}

// stillWaits reads the request past the cache, which can be older than this
// controller's last write: the CA would then issue a second certificate.
func (a *attempt[T]) stillWaits(ctx context.Context) (*outcome.Outcome, error) {
	latest, err := a.answers().Latest(ctx, a.of)
	if err == nil && a.api.due(latest) != requests.Sign {
		err = outcome.ErrSuperseded
	}
	a.request.Object = latest
	return nil, err
}

// blame returns the outcome of a request to an issuer for which Sign has
// reported a fault.
func (a *attempt[T]) blame(met fault) outcome.Outcome {
	o := outcome.Wait(reasonNotReady, "Referenced issuer is not ready: %v", met.err)
	o.After = met.until.Sub(a.clock.Now()) + time.Second // after the issuer was checked
	return o
}

// Sign implements engine.Attempt. It records a fault of the issuer.
func (a *attempt[T]) Sign(ctx context.Context) outcome.Outcome {
	chain, err := a.sign(ctx, a.request)
	now := a.clock.Now()
	if v := verdictOf(err); v != nil && v.kind == notReady {
		met := a.faults.put(a.issuer, a.request.Issuer, err, now)
		a.issuer.kind.blamed.add(a.issuer)
		return a.blame(met)
	}
	if err == nil {
		a.faults.forget(a.issuer)
	}
	return decide(chain, err, now.Sub(a.failing.since(a.of, now)), a.RetryFor)
}

// Put implements engine.Attempt.
func (a *attempt[T]) Put(ctx context.Context, o outcome.Outcome) (reconcile.Result, error) {
	return a.answers().Put(ctx, a.of, o, outcome.Report{Object: a.of, Recorder: a.events, Facts: []any{"uid", a.of.GetUID()}})
}

func (a *attempt[T]) answers() outcome.Kind[T] {
	due := a.api.due(a.of)
	return a.api.answers(a.controller, func(latest T) bool { return a.api.due(latest) == due })
}
