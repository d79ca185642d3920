package controllers

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

// How many normal events a controller writes: a second, and at once after it
// was quiet.
const (
	eventRate  = 20
	eventBurst = 200
)

// recorders returns what opens recorders that write events through api, each in
// the name of a component. The manager's own recorder would write them as the
// shared cache.
func (p Process) recorders(api *rest.Config) (func(component string) events.EventRecorder, error) {
	client, err := kubernetes.NewForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("making the client for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(coreEvents{client.CoreV1()})
	// From now on and not from the manager's start, when all begin to work at
	// the same time: whatever nobody records is lost.
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

// sparingRecorder drops normal events when there are many, before they cost
// anything. What they tell is in the objects too, and a store that is busy with
// the objects must not be busy with as many events about them. Warnings are
// all written.
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
