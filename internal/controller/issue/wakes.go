package issue

import (
	"context"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// order is the order in which Certificates are reconciled. Namespaces take turns. Within a
// namespace, Certificates with an answered request come first, so that started issuances
// finish before new ones start. A Certificate without an answer does not delay others.
type order struct{ starts, finishes *fairqueue.Handler }

// The priorities of Certificates that exist when the controller starts: those that
// are being issued come first.
const (
	knownPriority = handler.LowPriority
	begunPriority = knownPriority + 1
)

func (o order) start(about client.Object) int { return o.starts.Priority(about) }

func (o order) finish(about client.Object) int { return o.finishes.Priority(about) + 1 }

func add(q queue, key types.NamespacedName, priority int) {
	item := reconcile.Request{NamespacedName: key}
	if ordered, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, item)
		return
	}
	q.Add(item)
}

// certificateEvents queues Certificates that have changed, and those that name the
// same Secret.
func (r *reconciler) certificateEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			crt, ok := e.Object.(*cmv1.Certificate)
			if !ok {
				return
			}
			priority := knownPriority
			switch {
			case !e.IsInInitialList:
				priority = r.order.start(crt)
			case isIssuing(crt):
				priority = begunPriority
			}
			add(q, client.ObjectKeyFromObject(crt), priority)
			r.addRivals(ctx, q, crt, priority)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			priority := knownPriority
			if e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() {
				priority = r.order.start(e.ObjectNew)
			}
			add(q, client.ObjectKeyFromObject(e.ObjectNew), priority)
			for _, o := range []client.Object{e.ObjectOld, e.ObjectNew} {
				r.addRivals(ctx, q, o, priority)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.sights.forget(client.ObjectKeyFromObject(e.Object))
			r.addRivals(ctx, q, e.Object, r.order.start(e.Object))
		},
	}
}

// addRivals queues the other Certificates that name the Secret of one.
func (r *reconciler) addRivals(ctx context.Context, q queue, o client.Object, priority int) {
	crt, ok := o.(*cmv1.Certificate)
	if !ok {
		return
	}
	for _, conflicting := range r.withSecretName(ctx, crt.Namespace, crt.Spec.SecretName) {
		if conflicting.Name != crt.Name {
			key := client.ObjectKeyFromObject(conflicting)
			r.sights.disturb(key)
			add(q, key, priority)
		}
	}
}

// relativeEvents queues the Certificates, whose names are names of the object, when
// a request or the Secret with a next key has changed.
func (r *reconciler) relativeEvents(names func(client.Object) []string) handler.EventHandler {
	each := func(o client.Object, do func(types.NamespacedName)) {
		for _, name := range names(o) {
			do(types.NamespacedName{Namespace: o.GetNamespace(), Name: name})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			priority := knownPriority
			if !e.IsInInitialList {
				priority = r.order.start(e.Object)
			}
			each(e.Object, func(key types.NamespacedName) { add(q, key, priority) })
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			switch {
			case r.isMinor(e):
				each(e.ObjectNew, func(key types.NamespacedName) { r.sights.saw(key, e.ObjectNew.GetResourceVersion()) })
				return
			case e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion():
				each(e.ObjectNew, func(key types.NamespacedName) { add(q, key, knownPriority) })
				return
			}
			priority := r.priority(e)
			for _, o := range []client.Object{e.ObjectOld, e.ObjectNew} {
				each(o, func(key types.NamespacedName) { add(q, key, priority) })
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			priority := r.order.start(e.Object)
			each(e.Object, func(key types.NamespacedName) {
				r.sights.lost(key, e.Object.GetUID())
				add(q, key, priority)
			})
		},
	}
}

// priority returns the priority of a Certificate whose request changed.
func (r *reconciler) priority(e event.UpdateEvent) int {
	before, ok := e.ObjectOld.(*cmv1.CertificateRequest)
	after, isRequest := e.ObjectNew.(*cmv1.CertificateRequest)
	if ok && isRequest && issuance.IsAnswered(after) && !issuance.IsAnswered(before) {
		return r.order.finish(after)
	}
	return r.order.start(e.ObjectNew)
}

// isMinor reports whether all that has changed in a new request is its approval: it
// matters to its Certificate only if the request waits for long.
func (r *reconciler) isMinor(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*cmv1.CertificateRequest)
	after, isRequest := e.ObjectNew.(*cmv1.CertificateRequest)
	if !ok || !isRequest || issuance.IsAnswered(before) || issuance.IsAnswered(after) {
		return false
	}
	return r.Clock.Since(after.CreationTimestamp.Time) < requests.ApprovalGrace && after.Generation == before.Generation &&
		certmanager.RequestCondition(after, cmv1.CertificateRequestConditionReady) == nil &&
		certmanager.RequestCondition(before, cmv1.CertificateRequestConditionReady) == nil &&
		after.DeletionTimestamp.Equal(before.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(after.Annotations, before.Annotations) && equality.Semantic.DeepEqual(after.OwnerReferences, before.OwnerReferences)
}

// watchSecrets queues Certificates when their Secret, or the one with the
// password of a keystore, has changed.
func (r *reconciler) watchSecrets(ctx context.Context, q queue) error {
	go r.Secrets.Run(ctx, changewatch.Listener{
		Changed: func(secret types.NamespacedName, version string) {
			for _, crt := range r.byIndex(ctx, byAnySecret, secret.Namespace, secret.Name) {
				key := client.ObjectKeyFromObject(crt)
				r.sights.reported(key, version)
				add(q, key, r.order.start(crt))
			}
		},
		Missed: func() {
			r.sights.forgetAll()
			for _, crt := range r.list(ctx) {
				add(q, client.ObjectKeyFromObject(crt), knownPriority)
			}
		},
	})
	return nil
}

// revocationsPause is the time between two looks for Certificates that revocations are about.
const revocationsPause = 100 * time.Millisecond

// watchRevocations queues Certificates whose certificate may have been revoked. Neither the
// status of a Certificate nor a cached request identifies the certificate, so those count
// that end in the same second.
func (r *reconciler) watchRevocations(ctx context.Context, q queue) error {
	if r.Revoked == nil {
		return nil
	}
	go func() {
		index, err := r.Revoked(ctx)
		if err != nil {
			return // ctx has ended
		}
		r.revoked.Store(index)
		seen := 0
		index.Follow(ctx, func() {
			worker.Sleep(ctx, revocationsPause)
			ends, isExact, all := index.EndsSince(seen)
			if seen < all {
				for _, crt := range r.list(ctx) {
					if until := crt.Status.NotAfter; !isExact || until != nil && ends[until.Unix()] {
						key := client.ObjectKeyFromObject(crt)
						r.sights.disturb(key)
						add(q, key, r.order.start(crt))
					}
				}
			}
			seen = all
		})
	}()
	return nil
}
