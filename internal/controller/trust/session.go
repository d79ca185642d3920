package trust

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// lookEvery is the interval at which the publisher checks for changed roots of signers.
	lookEvery = 5 * time.Second
	// lookMore is the interval at which it checks for added and removed signers and their
	// roots: those are in memory.
	lookMore = time.Second
	// pause lets changes of bundles accumulate, and keeps two publishers that
	// do not agree from writing all the time.
	pause = time.Second
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// publish publishes bundles of one version until ctx ends.
func (p *publisher) publish(ctx context.Context, version string) error {
	kind := schema.GroupVersionKind{Group: certificatesv1.GroupName, Version: version, Kind: kindName}
	objects, err := inprocess.NewCache(p.API, cache.Options{
		Scheme: p.Client.Scheme(), Mapper: p.Client.RESTMapper(), DefaultTransform: p.withoutOthers,
	})
	if err != nil {
		return fmt.Errorf("making the cache of trust bundles: %w", err)
	}
	publishing, err := p.newWorker(ctx, kind, objects)
	if err != nil {
		return err
	}
	return worker.Run(ctx, objects, publishing)
}

// newWorker returns the worker that reconciles a signer's bundles when they or
// its roots have changed.
func (p *publisher) newWorker(ctx context.Context, kind schema.GroupVersionKind, objects cache.Cache) (controller.Controller, error) {
	bundles := &unstructured.Unstructured{}
	bundles.SetGroupVersionKind(kind)
	return worker.New(ctx, "trust-bundle-publisher", &reconciler{publisher: p, kind: kind, objects: objects},
		worker.Options{FirstPause: 200 * time.Millisecond, LastPause: 5 * time.Minute},
		source.Kind(objects, client.Object(bundles), p.schedule()), source.Func(p.watchRoots))
}

// withoutOthers keeps the content of other publishers' bundles out of the
// cache: each can have a megabyte. Signers come and go, so the cache holds all
// bundles that we have published.
func (p *publisher) withoutOthers(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
		_, known := p.signer(signerNameOf(u))
		if !known && !isOwnBundle(u) {
			unstructured.RemoveNestedField(u.Object, "spec", "trustBundle")
		}
	}
	return object, nil
}

// isOwnBundle reports whether we have published a bundle.
func isOwnBundle(o client.Object) bool {
	return o.GetLabels()[rollover.ManagedByLabel] == rollover.ManagedBy
}

func signerNameOf(o client.Object) string {
	name, _, _ := unstructured.NestedString(o.(*unstructured.Unstructured).Object, "spec", "signerName")
	return name
}

// schedule queues a signer when one of its bundles has changed.
func (p *publisher) schedule() handler.TypedEventHandler[client.Object, reconcile.Request] {
	schedule := func(o client.Object, q queue) {
		name := signerNameOf(o)
		if _, known := p.signer(name); known || p.More != nil && isOwnBundle(o) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}, pause)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { schedule(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { schedule(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { schedule(e.Object, q) },
	}
}

// watchRoots queues each signer once, and when its roots have changed.
func (p *publisher) watchRoots(ctx context.Context, q queue) error {
	for _, signer := range p.Signers {
		q.Add(requestFor(signer))
		go roots.Watch(ctx, signer.Roots, lookEvery, func() { q.Add(requestFor(signer)) })
	}
	if p.More != nil {
		go p.watchSigners(ctx, q)
	}
	return nil
}

// requestFor returns the queue's entry for a signer.
func requestFor(signer Signer) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: signer.Name}}
}
