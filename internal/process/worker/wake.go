package worker

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Once queues requests when the controller starts: a watch does not report
// objects that do not exist.
func Once(requests ...reconcile.Request) source.Source {
	return source.Func(func(_ context.Context, queue Queue) error {
		for _, request := range requests {
			queue.Add(request)
		}
		return nil
	})
}

// RequestsOf returns requests for the items of a list for which isConcerned is true; for all
// if it is nil.
func RequestsOf[T any, P interface {
	*T
	client.Object
}](items []T, isConcerned func(P) bool) (requests []reconcile.Request) {
	for i := range items {
		if isConcerned == nil || isConcerned(&items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(P(&items[i]))})
		}
	}
	return requests
}

// CannotWake logs that the handler of an event could not determine the affected objects,
// because the cache failed. It logs nothing once ctx has ended: the caches of a process that
// stops fail.
func CannotWake(ctx context.Context, err error, message string, values ...any) {
	if ctx.Err() == nil {
		log.FromContext(ctx).WithCallDepth(1).Error(err, message, values...)
	}
}

// Changed returns a channel that tells of changes until cancel is called. Changes
// that come before the last one was received are one.
func Changed[T any](subscribe func(func(T)) (cancel func())) (changed <-chan struct{}, cancel func()) {
	queued := make(chan struct{}, 1)
	return queued, subscribe(func(T) {
		select {
		case queued <- struct{}{}:
		default: // one is queued already
		}
	})
}

// OnChange calls do after each change until ctx ends, in a separate goroutine. Changes that
// arrive while do runs are combined into one call.
func OnChange[T any](ctx context.Context, subscribe func(func(T)) (cancel func()), do func()) {
	changed, cancel := Changed(subscribe)
	go func() {
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				do()
			}
		}
	}()
}
