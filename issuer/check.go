package issuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/worker"
)

// readiness is what an issuer's Ready condition says.
type readiness struct {
	ready           bool
	reason, message string
	// again is when to check again; zero means as err says.
	again time.Duration
	// err causes another check after the back-off.
	err error
}

// judge converts the result of Check to a readiness.
func judge(err error, checkEvery time.Duration) readiness {
	v := verdictOf(err)
	switch {
	case err == nil:
		return readiness{ready: true, reason: ReasonChecked, message: "The issuer can sign", again: checkEvery}
	case v != nil && (v.kind == permanent || v.kind == invalid):
		return readiness{reason: ReasonFailed, message: err.Error()}
	case v != nil && v.kind == pending && v.after > 0:
		return readiness{reason: ReasonPending, message: err.Error(), again: v.after}
	default:
		return readiness{reason: ReasonPending, message: err.Error(), err: err}
	}
}

// condition returns the Ready condition for r. lastTransitionTime changes only
// with the status.
func (r readiness) condition(issuer Issuer, now time.Time) metav1.Condition {
	next := metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionFalse, Reason: r.reason, Message: note.Fit(r.message),
		ObservedGeneration: issuer.GetGeneration(), LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if r.ready {
		next.Status = metav1.ConditionTrue
	}
	if before := readyOf(issuer); before != nil && before.Status == next.Status {
		next.LastTransitionTime = before.LastTransitionTime
	}
	return next
}

// readyOf returns the Ready condition; nil if there is none.
func readyOf(issuer Issuer) *metav1.Condition {
	conditions := issuer.GetConditions()
	i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == ConditionReady })
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

// issuers keeps the Ready condition of one kind true.
type issuers struct {
	*controller
	kind *kind
}

// queued keeps the queue of a worker, so that other workers can add to it.
type queued struct{ queue atomic.Pointer[worker.Queue] }

func (q *queued) source() source.Source {
	return source.Func(func(_ context.Context, queue worker.Queue) error {
		q.queue.Store(&queue)
		return nil
	})
}

func (q *queued) add(w who) {
	if queue := q.queue.Load(); queue != nil {
		(*queue).Add(reconcile.Request{NamespacedName: w.NamespacedName})
	}
}

// changesIssuer passes the events that make an issuer's condition outdated: a
// new spec; another object with the same name, which a watch that was
// interrupted reports as an update; and the removal of the condition by another
// client.
var changesIssuer = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, wasIssuer := e.ObjectOld.(Issuer)
		after, isIssuer := e.ObjectNew.(Issuer)
		return wasIssuer && isIssuer && (before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
			readyOf(before) != nil && readyOf(after) == nil)
	},
}

// newIssuerWorker returns the controller of the issuers of a kind.
func (c *controller) newIssuerWorker(ctx context.Context, k *kind) (ctrlcontroller.Controller, error) {
	looking, err := worker.New(ctx, k.plural, &issuers{controller: c, kind: k}, worker.Options{
		Concurrency: c.Concurrency, FirstPause: firstPause, LastPause: max(firstPause, min(lastPause, c.CheckEvery)),
	})
	if err != nil {
		return nil, err
	}
	for _, s := range []source.Source{
		source.Kind[client.Object](c.cache, k.new(), &handler.EnqueueRequestForObject{}, changesIssuer),
		k.blamed.source(),
	} {
		if err := looking.Watch(s); err != nil {
			return nil, fmt.Errorf("watching %s: %w", k.plural, err)
		}
	}
	return looking, nil
}

// Reconcile updates the status of one issuer.
func (i *issuers) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	named := who{i.kind, key.NamespacedName}
	issuer := i.kind.new()
	err := i.cache.Get(ctx, key.NamespacedName, issuer)
	if apierrors.IsNotFound(err) {
		i.faults.forget(named)
	}
	if err != nil || issuer.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r := i.look(ctx, named, issuer)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil // the next leader checks again
	}
	err = i.write(ctx, issuer, r.condition(issuer, i.clock.Now()))
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: answer.ConflictPause}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	case r.err != nil:
		return reconcile.Result{}, fmt.Errorf("the issuer is not ready: %w", r.err)
	}
	return reconcile.Result{RequeueAfter: r.again}, nil
}

// look returns the readiness of an issuer. A fault that Sign has reported takes
// precedence over the result of Check.
func (i *issuers) look(ctx context.Context, named who, issuer Issuer) readiness {
	now := i.clock.Now()
	if met, ok := i.faults.of(named, issuer, now); ok {
		return readiness{reason: ReasonPending, message: met.err.Error(), again: met.until.Sub(now)}
	}
	return judge(i.check(ctx, issuer.DeepCopyObject().(Issuer)), i.CheckEvery)
}

// errNotKept reports that the CRD drops the fields that its schema does not
// describe.
var errNotKept = errors.New("the API does not keep status.conditions: the schema in the issuer's definition must have it, as a list with the key type")

// write applies only the Ready condition, and only if it differs. It fails if
// the issuer has changed since it was checked.
func (i *issuers) write(ctx context.Context, issuer Issuer, ready metav1.Condition) error {
	before := readyOf(issuer)
	if before != nil && *before == ready {
		return nil
	}
	condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ready)
	if err != nil {
		return err
	}
	written, err := answer.ApplyStatus(ctx, i.client, i.Name, issuer, i.kind.GroupVersionKind, map[string]any{"conditions": []any{condition}})
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if kept, _, _ := unstructured.NestedSlice(written.Object, "status", "conditions"); len(kept) == 0 {
		return errNotKept
	}
	if before != nil && before.Status == ready.Status && before.Reason == ready.Reason && before.Message == ready.Message {
		return nil // only the observed generation differs
	}
	log.FromContext(ctx).Info("Issuer has changed", "ready", ready.Status, "reason", ready.Reason, "message", ready.Message)
	eventType := corev1.EventTypeWarning
	if ready.Status == metav1.ConditionTrue {
		eventType = corev1.EventTypeNormal
	}
	i.event(issuer, eventType, ready.Reason, "Check", ready.Message)
	return nil
}
