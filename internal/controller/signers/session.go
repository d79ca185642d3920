package signers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// concurrency is the number of Signers that are processed at the same time: a token or
	// a cloud can take its time to find a key.
	concurrency = 4
	// writeCountsEvery is the interval at which the counts in a Signer's status are
	// updated.
	writeCountsEvery = 10 * time.Second
	// lastWords is how long writing the final counts may take.
	lastWords = 2 * time.Second
)

type queue = worker.Queue

// work follows Signers until ctx ends.
func (c *controller) work(ctx context.Context, _ string) error {
	objects, err := inprocess.NewCache(c.Cache, cache.Options{
		Scheme: c.Client.Scheme(), Mapper: c.Client.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err == nil {
		err = errors.Join(
			objects.IndexField(ctx, &v1alpha1.Signer{}, bySignerName, func(o client.Object) []string { return []string{o.(*v1alpha1.Signer).Spec.SignerName} }),
			objects.IndexField(ctx, &v1alpha1.Signer{}, bySecret, func(o client.Object) []string { return []string{secretOf(o.(*v1alpha1.Signer))} }),
		)
	}
	if err != nil {
		return fmt.Errorf("making the cache of Signers: %w", err)
	}
	secrets, err := inprocess.NewCache(c.API, cache.Options{
		Scheme: c.Client.Scheme(), Mapper: c.Client.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{c.Namespace: {}},
	})
	if err != nil {
		return fmt.Errorf("making the cache of CAs: %w", err)
	}
	r := &reconciler{controller: c, objects: objects, secrets: secrets}
	opening, err := worker.New(ctx, "signers", r, worker.Options{
		Concurrency: concurrency, FirstPause: 200 * time.Millisecond, LastPause: time.Minute, Timeout: time.Minute,
	},
		source.Kind(objects, client.Object(&v1alpha1.Signer{}), r.withRivals(), specChanges()),
		source.Kind(secrets, client.Object(&corev1.Secret{}), handler.EnqueueRequestsFromMapFunc(r.signersOf)),
		source.Func(r.watchCounts), source.Func(r.watchRevoked),
	)
	if err != nil {
		return err
	}
	err = worker.Run(ctx, objects, secrets, opening)
	r.writeLastCounts(ctx)
	return err
}

// specChanges filters out the changes that the controller itself writes.
func specChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return was.GetUID() != is.GetUID() || was.GetGeneration() != is.GetGeneration() ||
			!was.GetDeletionTimestamp().Equal(is.GetDeletionTimestamp()) ||
			!maps.Equal(was.GetAnnotations(), is.GetAnnotations())
	}}
}

// Indexes of the cache of Signers.
const (
	bySignerName = "spec.signerName"
	bySecret     = "secret"
)

// withRivals queues a Signer and those with the same signer name: one of them
// signs.
func (r *reconciler) withRivals() handler.TypedEventHandler[client.Object, reconcile.Request] {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		requests := []reconcile.Request{requestFor(o.GetName())} // also of one that is gone
		if changed, ok := o.(*v1alpha1.Signer); ok {
			requests = append(requests, r.requestsFor(ctx, bySignerName, changed.Spec.SignerName)...)
		}
		return requests
	})
}

// signersOf returns the Signers that use a Secret.
func (r *reconciler) signersOf(ctx context.Context, secret client.Object) []reconcile.Request {
	return r.requestsFor(ctx, bySecret, secret.GetName())
}

func (r *reconciler) requestsFor(ctx context.Context, index, value string) []reconcile.Request {
	found, err := r.all(ctx, client.MatchingFields{index: value})
	if err != nil {
		worker.CannotWake(ctx, err, "Cannot list Signers")
		return nil
	}
	var requests []reconcile.Request
	for i := range found {
		requests = append(requests, requestFor(found[i].Name))
	}
	return requests
}

// all returns the Signers that options select, which must not be modified.
func (r *reconciler) all(ctx context.Context, options ...client.ListOption) ([]v1alpha1.Signer, error) {
	list := &v1alpha1.SignerList{}
	err := r.objects.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...)
	return list.Items, err
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}

// watchCounts queues from time to time the Signers that have issued
// certificates.
func (r *reconciler) watchCounts(ctx context.Context, q queue) error {
	for _, signer := range r.Signers.All() { // from before a pause
		q.Add(requestFor(signer.Object))
	}
	go func() {
		ticker := time.NewTicker(writeCountsEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			r.look(ctx, q)
		}
	}()
	return nil
}

// watchRevoked queues the Signers whose CA has been revoked.
func (r *reconciler) watchRevoked(ctx context.Context, q queue) error {
	if r.Revoked == nil {
		return nil
	}
	go r.Revoked.Follow(ctx, func() {
		for _, signer := range r.Signers.All() {
			if revokedCA(r.Revoked, signer.CA) != nil {
				q.Add(requestFor(signer.Object))
			}
		}
	})
	return nil
}

func (r *reconciler) look(ctx context.Context, q queue) {
	for _, signer := range r.Signers.All() {
		if !signer.Counts.Get().IsZero() {
			q.Add(requestFor(signer.Object))
		}
	}
	if r.Signers.Complete() {
		return
	}
	if all, err := r.all(ctx); err == nil && r.memory.hasAll(all) {
		r.Signers.MarkComplete()
	}
}

// writeLastCounts writes what was issued since the counts were last written.
// Otherwise a process that is stopped would lose these counts.
func (r *reconciler) writeLastCounts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	for _, signer := range r.Signers.All() {
		if signer.Counts.Get().IsZero() {
			continue
		}
		latest := &v1alpha1.Signer{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: signer.Object}, latest)
		if err == nil && latest.UID == signer.UID {
			err = r.writeStatus(ctx, latest, *latest.Status.DeepCopy(), signer.Counts)
		}
		if client.IgnoreNotFound(err) != nil {
			log.FromContext(ctx).Error(err, "Cannot write how many certificates were issued", "signer", signer.Name)
		}
	}
}
