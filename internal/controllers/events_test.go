package controllers

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
)

// written counts the events of each type.
type written struct {
	events.EventSink
	count map[string]int
}

func (w written) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	w.count[event.Type]++
	return event, nil
}

func TestSparingSink(t *testing.T) {
	sink := written{count: map[string]int{}}
	sparing := sparingSink{EventSink: sink, limit: flowcontrol.NewFakeNeverRateLimiter()}
	for _, kind := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning, corev1.EventTypeWarning} {
		if _, err := sparing.Create(t.Context(), &eventsv1.Event{Type: kind}); err != nil {
			t.Fatal(err)
		}
	}
	if sink.count[corev1.EventTypeNormal] != 0 || sink.count[corev1.EventTypeWarning] != 2 {
		t.Errorf("over the limit, these were written: %v", sink.count)
	}
	sparing.limit = flowcontrol.NewFakeAlwaysRateLimiter()
	if _, err := sparing.Create(t.Context(), &eventsv1.Event{Type: corev1.EventTypeNormal}); err != nil || sink.count[corev1.EventTypeNormal] != 1 {
		t.Errorf("under the limit: %v, %v", sink.count, err)
	}
}
