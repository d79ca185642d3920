package podsign

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// The first and the longest wait before the next attempt for a request that
// could not be answered.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Minute
)

type queue = worker.Queue

// work signs requests of one version of the API until ctx ends.
func (c *controller) work(ctx context.Context, version string) error {
	objects, err := inprocess.NewCache(c.Cache, cache.Options{
		Scheme: c.Client.Scheme(), Mapper: c.Client.RESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: stripPod}},
	})
	if err != nil {
		return fmt.Errorf("making the cache of pods and their requests: %w", err)
	}
	r := &reconciler{controller: c, version: certificates.PodRequestVersions[version], objects: issueoncreate.Reader(objects)}
	signing, err := worker.New(ctx, "podsign", r, worker.Options{
		Concurrency: c.Settings.Concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: time.Minute,
	}, source.Kind[client.Object](objects, r.version.New(), fairqueue.New(c.Clock), r.predicate()), source.Func(r.retryWithSigners))
	if err != nil {
		return err
	}
	c.OnCreate.Start(ctx, issueoncreate.Step{Resource: certificatesv1.Resource("podcertificaterequests"), Role: issueoncreate.Sign, Takes: r.takesNew, Reconciler: r})
	return worker.Run(ctx, objects, signing)
}

// stripPod keeps only what signers may use of pods: there can be very many.
func stripPod(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	}
	return object, nil
}

// predicate keeps requests that need no action out of the queue.
func (r *reconciler) predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return r.waits(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return r.waits(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return r.waits(e.Object) },
	}
}

func (r *reconciler) waits(o client.Object) bool {
	req := certificates.PodRequestFrom(o)
	return req != nil && pending(req) && r.signerOf(req) != nil
}

// takesNew reports whether a request can be answered in the call that creates it.
func (r *reconciler) takesNew(o client.Object) bool {
	req := certificates.PodRequestFrom(o)
	return req != nil && pending(req) && r.signerOf(req).IssuesOnCreate()
}

// retryWithSigners is a source of work: each change of the signers triggers the
// requests that may have waited for it.
func (r *reconciler) retryWithSigners(ctx context.Context, q queue) error {
	worker.OnChange(ctx, r.Signers.Changes.Subscribe, func() { r.enqueueAll(ctx, q) })
	return nil
}

func (r *reconciler) enqueueAll(ctx context.Context, q queue) {
	list := r.version.NewList()
	if err := r.objects.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the requests that may wait for a signer; they are retried after their back-off")
		return
	}
	for _, o := range certificates.PodRequestItems(list) {
		if r.waits(o) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		}
	}
}
