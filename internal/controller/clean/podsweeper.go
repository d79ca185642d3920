package clean

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/policy/retention"
	"github.com/certplane/certplane/internal/process/worker"
)

// podSweeper deletes requests of one version. Its queue contains requests that
// are due and, without a namespace, nodes whose requests are to be counted.
type podSweeper struct {
	*podCleaner
	version  certificates.PodRequestVersion
	requests client.Reader

	reported worker.Seldom[string] // by node
}

// schedule queues requests for when they are due, and nodes to be counted a
// while after they have made a request.
func (s *podSweeper) schedule() handler.EventHandler {
	schedule := func(o client.Object, q workqueue) {
		r := viewOf(o)
		if verdict := s.decide(r); verdict.Delete() || !verdict.Again.IsZero() {
			q.AddAfter(keyOf(o), max(verdict.Again.Sub(s.Clock.Now()), time.Nanosecond))
		}
		if s.Settings.podCap() != (retention.Cap{Spare: s.Settings.Fetch.Duration}) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: r.Node}}, pause)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue) { schedule(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue) {
			// After a gap in the watch, this can be another object with the same
			// name.
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				schedule(e.ObjectNew, q)
			}
		},
		// The queue must not remember deleted requests.
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue) { q.Add(keyOf(e.Object)) },
	}
}

func (s *podSweeper) decide(r retention.PodRequest) retention.Verdict {
	return retention.DecidePod(r, s.Clock.Now(), s.Settings.PodRequests.Age.Duration)
}

// Reconcile deletes one request that is due, or what one node has too many of.
func (s *podSweeper) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	if key.Namespace == "" {
		return s.count(ctx, key.Name)
	}
	object := s.version.New()
	if err := s.requests.Get(ctx, key.NamespacedName, object, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r := viewOf(object)
	verdict := s.decide(r)
	if !verdict.Delete() {
		if verdict.Again.IsZero() {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: max(verdict.Again.Sub(s.Clock.Now()), time.Nanosecond)}, nil
	}
	if s.holds(r) {
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	}
	return reconcile.Result{}, s.sweep(ctx, r, verdict)
}

// holds reports whether a request has to wait for the record of its certificate.
func (s *podSweeper) holds(r retention.PodRequest) bool {
	return r.Issued && s.await.holds("PodCertificateRequest", r.UID)
}

// count deletes the requests that a node has too many of.
func (s *podSweeper) count(ctx context.Context, node string) (reconcile.Result, error) {
	list := s.version.NewList()
	if err := s.requests.List(ctx, list, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("counting the requests of node %s: %w", node, err)
	}
	var of []retention.PodRequest
	var bytes int64
	for _, o := range certificates.PodRequestItems(list) {
		r := viewOf(o)
		of, bytes = append(of, r), bytes+r.Bytes
	}
	now, limit := s.Clock.Now(), s.Settings.podCap()
	surplus, again := retention.PodSurplus(of, now, limit)
	all := len(surplus)
	switch surplus = slices.DeleteFunc(surplus, s.holds); {
	case len(surplus) < all && len(surplus) == 0:
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	case len(surplus) == 0 && again.IsZero():
		return reconcile.Result{}, nil
	}
	rest := surplus[min(batch, len(surplus)):]
	if err := s.sweepSurplus(ctx, surplus[:len(surplus)-len(rest)], excess(len(of), bytes, limit)); err != nil {
		return reconcile.Result{}, err
	}
	if len(rest) > 0 {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	return reconcile.Result{RequeueAfter: max(again.Sub(now), pause)}, nil
}

func (s *podSweeper) sweepSurplus(ctx context.Context, surplus []retention.PodRequest, excess string) error {
	if len(surplus) == 0 {
		return nil
	}
	log.FromContext(ctx).Info("Deleting requests of a node with too many requests", "node", surplus[0].Node, "has", excess, "deleting", len(surplus))
	s.tellTooMany(surplus[0], excess)
	verdict := retention.Verdict{Reason: retention.Excess, Message: "its node has " + excess}
	var group errgroup.Group
	group.SetLimit(deleters)
	for _, r := range surplus {
		group.Go(func() error { return s.sweep(ctx, r, verdict) })
	}
	return group.Wait()
}

// sweep deletes a request in any state, but not another request with the same name.
func (s *podSweeper) sweep(ctx context.Context, r retention.PodRequest, verdict retention.Verdict) error {
	object := s.reference(r)
	if err := s.Client.Delete(ctx, object, client.Preconditions{UID: &r.UID}); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return fmt.Errorf("deleting the request %s/%s: %w", r.Namespace, r.Name, err)
	}
	log.FromContext(ctx).V(2).Info("Deleted request", "request", r.Namespace+"/"+r.Name, "uid", r.UID, "signer", r.SignerName,
		"node", r.Node, "reason", verdict.Reason, "message", verdict.Message)
	s.metrics.deleted.WithLabelValues(string(verdict.Reason)).Inc()
	if verdict.Reason == retention.Pending {
		s.event(object, corev1.EventTypeNormal, "Deleted", "Deleted without an outcome: it was %s, and no signer %s has answered", verdict.Message, r.SignerName)
	}
	return nil
}

// reference returns a request that has only its identity.
func (s *podSweeper) reference(r retention.PodRequest) client.Object {
	object := s.version.New()
	object.SetNamespace(r.Namespace)
	object.SetName(r.Name)
	object.SetUID(r.UID)
	return object
}

// tellTooMany reports from time to time that a node has too many requests.
func (s *podSweeper) tellTooMany(first retention.PodRequest, excess string) {
	if s.reported.Due(first.Node, s.Clock.Now(), tellEvery) {
		s.event(s.reference(first), corev1.EventTypeWarning, "TooManyRequests",
			"node %s has %s: the oldest are deleted, with or without an outcome", first.Node, excess)
	}
}

func (s *podSweeper) event(object client.Object, kind, reason, note string, args ...any) {
	if s.Events != nil {
		s.Events.Eventf(object, nil, kind, reason, action, note, args...)
	}
}
