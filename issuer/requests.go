package issuer

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/worker"
)

// patience is how long a request may wait for its approval before an Event says
// so: most are approved at once.
const patience = 10 * time.Second

// asked is a request of one of the two APIs.
type asked interface {
	client.Object
	// object is the object that Sign gets.
	object() client.Object
	// step returns what to do next, if the request is for one of our issuers.
	step() step
	// issuer returns the issuer that the request refers to; ok is false if it
	// is not one of ours.
	issuer(ks kinds) (issuer who, ok bool)
	// view returns what is requested.
	view() request.Request
	// mayRefer reports whether its requester may use an issuer.
	mayRefer(ctx context.Context, c *controller, w who) (bool, error)
	// put stores an outcome and reports it; it returns when to reconcile again.
	put(ctx context.Context, c *controller, o answer.Outcome, report answer.Report) (reconcile.Result, error)
	// latest reads the request from the API, not from the cache.
	latest(ctx context.Context, c *controller) (asked, error)
	// awaits returns the reason and the text of the Event that an approval is
	// missing.
	awaits(w who) (reason, note string)
}

// requestAPI is one of the two APIs for requests.
type requestAPI struct {
	schema.GroupVersionKind
	plural string
	// namespaced is set if the requests are in the namespaces of their issuers.
	// Requests without a namespace are not found in the cache by a namespace.
	namespaced bool
	new        func() client.Object
	list       func() client.ObjectList
	// as converts an object; it returns false if the object is not of this API.
	as func(o client.Object) (asked, bool)
}

// requests answers the requests of one API.
type requests struct {
	*controller
	api requestAPI
	// failing are the requests for which Sign fails.
	failing *failing
}

// Start answers requests while the API serves their kind.
func (r requests) Start(ctx context.Context) error {
	resource := worker.Resource{Group: r.api.Group, Versions: []string{r.api.Version}, Name: r.api.plural, Lookup: r.lookup}
	resource.Follow(ctx, "Answering "+r.api.Kind+"s", r.work)
	return nil
}

func (r requests) work(ctx context.Context, _ string) error {
	signing, err := worker.New(ctx, r.api.plural+"-"+r.Name, r, worker.Options{
		Concurrency: r.Concurrency, FirstPause: firstPause, LastPause: lastPause,
	})
	if err != nil {
		return err
	}
	watches := []source.Source{source.Kind[client.Object](r.cache, r.api.new(), &handler.EnqueueRequestForObject{}, r.due())}
	for _, k := range r.kinds {
		asking := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, issuer client.Object) []reconcile.Request {
			return r.asking(ctx, who{k, client.ObjectKeyFromObject(issuer)})
		})
		watches = append(watches, source.Kind[client.Object](r.cache, k.new(), asking, changesReadiness))
	}
	for _, watch := range watches {
		if err := signing.Watch(watch); err != nil {
			return fmt.Errorf("watching %s and their issuers: %w", r.api.plural, err)
		}
	}
	return signing.Start(ctx)
}

// stepOf returns what to do next for an object.
func (r requests) stepOf(o client.Object) step {
	if a, ok := r.api.as(o); ok {
		if _, ours := a.issuer(r.kinds); ours {
			return a.step()
		}
	}
	return stepNone
}

// due keeps requests that need nothing out of the queue, and also the
// controller's own writes: otherwise a waiting request would be reconciled at
// once after each.
func (r requests) due() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.stepOf(e.Object) != stepNone },
		UpdateFunc: func(e event.UpdateEvent) bool {
			now := r.stepOf(e.ObjectNew)
			return now != stepNone && (now != r.stepOf(e.ObjectOld) || e.ObjectNew.GetUID() != e.ObjectOld.GetUID())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
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

// asking returns the requests that wait for a certificate of an issuer.
func (r requests) asking(ctx context.Context, w who) []reconcile.Request {
	list, options := r.api.list(), []client.ListOption{client.UnsafeDisableDeepCopy}
	if r.api.namespaced {
		options = append(options, client.InNamespace(w.Namespace))
	}
	err := r.cache.List(ctx, list, options...)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the requests that may wait for an issuer; their back-off brings them back")
		return nil
	}
	var waiting []reconcile.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error { // a list of structs has items
		a, ok := r.api.as(o.(client.Object))
		if !ok {
			return nil
		}
		if of, ours := a.issuer(r.kinds); ours && of == w && a.step() == stepSign {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(a)})
		}
		return nil
	})
	return waiting
}

// Reconcile takes the next step for one request.
func (r requests) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	object := r.api.new()
	if err := r.cache.Get(ctx, key.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			r.failing.end(key.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	a, _ := r.api.as(object)
	w, ours := a.issuer(r.kinds)
	if !ours {
		return reconcile.Result{}, nil
	}
	switch a.step() {
	case stepDeny:
		return r.put(ctx, a, denied)
	case stepAwait:
		return r.await(a, w), nil
	case stepSign:
		o, err := r.answer(ctx, a, w)
		switch {
		case errors.Is(err, answer.ErrSuperseded):
			return reconcile.Result{}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
		r.failing.note(a, o, r.clock.Now())
		return r.put(ctx, a, o)
	}
	r.failing.end(key.NamespacedName)
	return reconcile.Result{}, nil
}

// await reports that a request needs an approval, and which permission the
// approver needs: an approver without that permission reports nothing.
func (r requests) await(a asked, w who) reconcile.Result {
	if wait := a.GetCreationTimestamp().Add(patience).Sub(r.clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	reason, note := a.awaits(w)
	r.event(a.object(), corev1.EventTypeNormal, reason, "Sign", note)
	return reconcile.Result{}
}

// answer asks the issuer. It fails with answer.ErrSuperseded if that is not
// necessary. Its other errors are API errors and temporary.
func (r requests) answer(ctx context.Context, a asked, w who) (answer.Outcome, error) {
	// A requester that may not refer to the issuer need not wait for it.
	switch allowed, err := a.mayRefer(ctx, r.controller, w); {
	case err != nil:
		return answer.Outcome{}, err
	case !allowed:
		return notAllowed(w), nil
	}
	request, bad := newRequest(a.view(), r.DefaultDuration, r.MaxDuration)
	if bad != nil {
		return *bad, nil
	}
	issuer, o, err := r.find(ctx, w)
	if issuer == nil {
		return o, err
	}
	// The cache can be older than this controller's last write; the CA would
	// then issue a second certificate.
	latest, err := a.latest(ctx, r.controller)
	if err == nil && latest.step() != stepSign {
		err = answer.ErrSuperseded
	}
	if err != nil {
		return answer.Outcome{}, err
	}
	request.Issuer, request.Object = issuer, latest.object()
	return r.ask(ctx, w, request), nil
}

// find returns an issuer that is ready, or the outcome of a request that waits
// for it.
func (r requests) find(ctx context.Context, w who) (Issuer, answer.Outcome, error) {
	found := w.kind.new()
	err := r.cache.Get(ctx, w.NamespacedName, found)
	if apierrors.IsNotFound(err) {
		o, _ := findIssuer(nil, w)
		return nil, o, nil
	}
	if err != nil {
		return nil, answer.Outcome{}, fmt.Errorf("reading the %s %s: %w", w.kind.Kind, w.Name, err)
	}
	if o, ok := findIssuer(found, w); !ok {
		return nil, o, nil
	}
	if met, ok := r.faults.of(w, found, r.clock.Now()); ok {
		return nil, r.blame(met), nil
	}
	return found, answer.Outcome{}, nil
}

// blame returns the outcome of a request to an issuer for which Sign has
// reported a fault.
func (r requests) blame(met fault) answer.Outcome {
	o := answer.Wait(reasonNotReady, "Referenced issuer is not ready: %v", met.err)
	o.After = met.until.Sub(r.clock.Now()) + time.Second // after the issuer was checked
	return o
}

// ask calls Sign for a request and records a fault of the issuer.
func (r requests) ask(ctx context.Context, w who, request *Request) answer.Outcome {
	chain, err := r.sign(ctx, request)
	now := r.clock.Now()
	if v := verdictOf(err); v != nil && v.kind == notReady {
		met := r.faults.put(w, request.Issuer, err, now)
		w.kind.blamed.add(w)
		return r.blame(met)
	}
	if err == nil {
		r.faults.forget(w)
	}
	return decide(chain, err, now.Sub(r.failing.since(request.Object, now)), r.RetryFor)
}

// put stores an outcome on a request and reports it.
func (r requests) put(ctx context.Context, a asked, o answer.Outcome) (reconcile.Result, error) {
	return a.put(ctx, r.controller, o, answer.Report{Object: a.object(), Recorder: r.events, Facts: []any{"uid", a.GetUID()}})
}
