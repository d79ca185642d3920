package controllermanager

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
)

// coreEvents writes events with the fields of both generations: those of
// events.k8s.io, and source, firstTimestamp, lastTimestamp and count, which
// older programs read. Only the core group takes them all.
type coreEvents struct{ client corev1client.EventsGetter }

var _ events.EventSink = coreEvents{}

// Create implements events.EventSink.
func (s coreEvents) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	_, err := s.client.Events(event.Namespace).Create(ctx, coreEvent(event), metav1.CreateOptions{})
	return event, err
}

// Update implements events.EventSink.
func (s coreEvents) Update(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	_, err := s.client.Events(event.Namespace).Update(ctx, coreEvent(event), metav1.UpdateOptions{})
	return event, err
}

// Patch implements events.EventSink. The library's patch has only the series,
// which the Event has too.
func (s coreEvents) Patch(ctx context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	repeated := coreEvent(event)
	patch, err := json.Marshal(map[string]any{
		"series": repeated.Series, "count": repeated.Count, "lastTimestamp": repeated.LastTimestamp,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the repetition of event %s: %w", event.Name, err)
	}
	_, err = s.client.Events(event.Namespace).Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return event, err
}

// coreEvent converts event to the core group.
func coreEvent(event *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta:     event.ObjectMeta,
		InvolvedObject: event.Regarding, Related: event.Related,
		Type: event.Type, Reason: event.Reason, Action: event.Action, Message: event.Note,
		ReportingController: event.ReportingController, ReportingInstance: event.ReportingInstance,
		Source:         corev1.EventSource{Component: event.ReportingController},
		EventTime:      event.EventTime,
		FirstTimestamp: metav1.Time{Time: event.EventTime.Time},
		LastTimestamp:  metav1.Time{Time: event.EventTime.Time},
		Count:          1,
	}
	if event.Series != nil {
		out.Series = &corev1.EventSeries{Count: event.Series.Count, LastObservedTime: event.Series.LastObservedTime}
		out.Count, out.LastTimestamp = event.Series.Count, metav1.Time{Time: event.Series.LastObservedTime.Time}
	}
	return out
}
