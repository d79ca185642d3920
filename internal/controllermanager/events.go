package controllermanager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// How many normal Events a controller writes per second, and how many at once
// after a quiet time.
const (
	eventRate  = 20
	eventBurst = 200
)

// recorders returns a function that opens recorders. They write Events through
// api, each in the name of a component. The manager's own recorder would write
// them as the account of the shared cache.
func (p Process) recorders(api *rest.Config) (func(component string) events.EventRecorder, error) {
	client, err := kubernetes.NewForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("making the client for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(coreEvents{client.CoreV1()})
	// The broadcaster runs from now on, not from the manager's start, when all
	// controllers begin to work at the same time: an Event that is not recorded
	// is lost.
	ctx, cancel := context.WithCancel(context.Background())
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("recording events: %w", err)
	}
	err = p.Manager.Add(manager.RunnableFunc(func(running context.Context) error {
		<-running.Done()
		cancel()
		broadcaster.Shutdown()
		return nil
	}))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("adding the recorder of events: %w", err)
	}
	limit := flowcontrol.NewTokenBucketRateLimiter(eventRate, eventBurst)
	return func(component string) events.EventRecorder {
		return sparingRecorder{EventRecorder: broadcaster.NewRecorder(p.Manager.GetScheme(), component), limit: limit}
	}, nil
}

// sparingRecorder drops normal Events when there are many, before they cost
// anything. The objects contain the same information, and a store that is busy
// with the objects must not be busy with as many Events about them. Warnings
// are all written.
type sparingRecorder struct {
	events.EventRecorder
	limit flowcontrol.PassiveRateLimiter
}

// Eventf implements events.EventRecorder.
func (r sparingRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if kind == corev1.EventTypeNormal && !r.limit.TryAccept() {
		return
	}
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}
