package acmeserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// maxFinishing is how many finalizations wait for their certificates at a time. Further
// ones are answered at once, and their clients ask again.
const maxFinishing = 64

// finishing wakes waiting requests when an order is valid or invalid.
type finishing struct {
	places *semaphore.Weighted

	mu      sync.Mutex
	waiting map[client.ObjectKey][]chan struct{}
}

func newFinishing(ctx context.Context, objects ctrlcache.Cache, orders *counts) (*finishing, error) {
	f := &finishing{places: semaphore.NewWeighted(maxFinishing), waiting: map[client.ObjectKey][]chan struct{}{}}
	informer, err := objects.GetInformer(ctx, &v1alpha1.AcmeOrder{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("caching AcmeOrders: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, changed any) { f.tell(changed) },
		DeleteFunc: f.tell,
	})
	if err == nil {
		_, err = informer.AddEventHandler(orders.handler())
	}
	if err != nil {
		return nil, fmt.Errorf("following AcmeOrders: %w", err)
	}
	return f, nil
}

// tell wakes the requests that wait for an order.
func (f *finishing) tell(object any) {
	o, ok := stillKnown(object).(*v1alpha1.AcmeOrder)
	if !ok || o.DeletionTimestamp == nil && !hasEnded(o) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	for _, waiter := range f.waiting[key] {
		close(waiter)
	}
	delete(f.waiting, key)
}

func hasEnded(o *v1alpha1.AcmeOrder) bool {
	return o.Status.State == v1alpha1.AcmeOrderValid || o.Status.State == v1alpha1.AcmeOrderInvalid
}

// expect returns a function that waits until an order has ended, at most for a
// period, and reports whether it has waited. It has to be called once.
func (f *finishing) expect(key client.ObjectKey) (wait func(context.Context, time.Duration) bool) {
	if !f.places.TryAcquire(1) {
		return func(context.Context, time.Duration) bool { return false }
	}
	ended := make(chan struct{})
	f.mu.Lock()
	f.waiting[key] = append(f.waiting[key], ended)
	f.mu.Unlock()
	return func(ctx context.Context, period time.Duration) bool {
		defer f.places.Release(1)
		defer f.forget(key, ended)
		timer := time.NewTimer(period)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		case <-ctx.Done():
		}
		return true
	}
}

func (f *finishing) forget(key client.ObjectKey, ended chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var others []chan struct{}
	for _, waiter := range f.waiting[key] {
		if waiter != ended {
			others = append(others, waiter)
		}
	}
	if f.waiting[key] = others; len(others) == 0 {
		delete(f.waiting, key)
	}
}
