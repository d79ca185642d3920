package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes"
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

// Recorder returns what writes events as an account's controller. The
// manager's own recorder would write them as the shared cache.
func (p Process) Recorder(account string) (events.EventRecorder, error) {
	cfg, err := p.As(account)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(sparingSink{
		EventSink: &events.EventSinkImpl{Interface: client.EventsV1()},
		limit:     flowcontrol.NewTokenBucketRateLimiter(eventRate, eventBurst),
	})
	err = p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer broadcaster.Shutdown()
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			return fmt.Errorf("recording events: %w", err)
		}
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("adding the recorder of events: %w", err)
	}
	return broadcaster.NewRecorder(p.Manager.GetScheme(), "certplane.dev/"+account), nil
}

// sparingSink drops normal events when there are many. What they tell is in
// the objects too, and a store that is busy with the objects must not be busy
// with as many events about them. Warnings are all written.
type sparingSink struct {
	events.EventSink
	limit flowcontrol.PassiveRateLimiter
}

// Create implements events.EventSink.
func (s sparingSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if event.Type == corev1.EventTypeNormal && !s.limit.TryAccept() {
		return event, nil
	}
	return s.EventSink.Create(ctx, event)
}
