package issuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

// judge converts the result of Check to a readiness.
func judge(err error, now time.Time, checkEvery time.Duration) issuing.Ready {
	if err == nil {
		return issuing.Ready{OK: true, Reason: ReasonChecked, Message: "The issuer can sign", Again: now.Add(checkEvery)}
	}
	r := issuing.NotReady(ReasonPending, "%v", err)
	switch v := verdictOf(err); {
	case v != nil && (v.kind == permanent || v.kind == invalid):
		r.Reason = ReasonFailed
	case v != nil && v.kind == pending && v.after > 0:
		r.Again = now.Add(v.after)
	default:
		r.Retry = err
	}
	return r
}

// conditionOf returns the Ready condition for r. lastTransitionTime changes only
// with the status.
func conditionOf(r issuing.Ready, issuer Issuer, now time.Time) metav1.Condition {
	next := metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionFalse, Reason: r.Reason, Message: eventtext.Fit(r.Message),
		ObservedGeneration: issuer.GetGeneration(), LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if r.OK {
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

// Start implements worker.Part.
func (i issuers) Start(ctx context.Context) error {
	checking := &engine.Issuers[Issuer]{
		Work: engine.Work{
			Name: i.kind.plural, Wakes: []source.Source{i.kind.blamed.source()},
			Options: worker.Options{Concurrency: i.Concurrency, LastPause: max(firstPause, min(lastPause, i.CheckEvery))},
		},
		Cache: i.cache, Clock: i.clock, New: i.kind.new, Changes: changesIssuer,
		Check: i.look, Write: i.write, Tell: i.tell,
		Forget: func(issuer types.NamespacedName) { i.faults.forget(who{i.kind, issuer}) },
	}
	return checking.Run(ctx)
}

// look returns the readiness of an issuer. A fault that Sign has reported takes
// precedence over the result of Check.
func (i issuers) look(ctx context.Context, issuer Issuer, now time.Time) (issuing.Ready, error) {
	if met, ok := i.faults.of(who{i.kind, client.ObjectKeyFromObject(issuer)}, issuer, now); ok {
		r := issuing.NotReady(ReasonPending, "%v", met.err)
		r.Again = met.until
		return r, nil
	}
	return judge(i.check(ctx, issuer.DeepCopyObject().(Issuer)), now, i.CheckEvery), nil
}

// errNotKept reports that the CRD drops the fields that its schema does not
// describe.
var errNotKept = errors.New("the API does not keep status.conditions: the schema in the issuer's definition must have it, as a list with the key type")

// write applies only the Ready condition, and only if it differs. It fails if
// the issuer has changed since it was checked.
func (i issuers) write(ctx context.Context, issuer Issuer, r issuing.Ready) (changed bool, err error) {
	before, ready := readyOf(issuer), conditionOf(r, issuer, i.clock.Now())
	if before != nil && *before == ready {
		return false, nil
	}
	condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ready)
	if err != nil {
		return false, err
	}
	written, err := outcome.ApplyStatus(ctx, i.client, i.Name, issuer, i.kind.GroupVersionKind, map[string]any{"conditions": []any{condition}})
	if err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	if kept, _, _ := unstructured.NestedSlice(written.Object, "status", "conditions"); len(kept) == 0 {
		return false, errNotKept
	}
	return before == nil || before.Status != ready.Status || before.Reason != ready.Reason || before.Message != ready.Message, nil // otherwise only the observed generation differs
}

func (i issuers) tell(issuer Issuer, r issuing.Ready) {
	eventType := corev1.EventTypeWarning
	if r.OK {
		eventType = corev1.EventTypeNormal
	}
	i.events.Eventf(issuer, nil, eventType, r.Reason, "Check", "%s", eventtext.Fit(r.Message))
}
