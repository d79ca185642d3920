package inprocess

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/certplane/certplane/internal/inprocess/loopback"
)

// following returns lists and watches whose objects are not encoded.
func following(next toolscache.ListerWatcher) toolscache.ListerWatcher {
	encoded := toolscache.ToListerWatcherWithContext(next)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			var exchange loopback.Exchange
			list, err := encoded.ListWithContext(loopback.WithExchange(ctx, &exchange), options)
			if err == nil && exchange.Received != nil {
				return exchange.Received, nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			var exchange loopback.Exchange
			events, err := encoded.WatchWithContext(loopback.WithExchange(ctx, &exchange), options)
			if err == nil && exchange.Events != nil {
				return passedEvents{events, exchange.Events}, nil
			}
			return events, err
		},
	}
}

// passedEvents is a watch whose events do not come from the body of its answer.
type passedEvents struct {
	watch.Interface // stops the watch
	events          <-chan watch.Event
}

// ResultChan implements watch.Interface.
func (p passedEvents) ResultChan() <-chan watch.Event { return p.events }
