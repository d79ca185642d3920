package controllermanager

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/controller/publishlists"
	"github.com/certplane/certplane/internal/issuing"
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
// are all written, except those that each certificate of a CA has, or each revoked one.
type sparingRecorder struct {
	events.EventRecorder
	limit flowcontrol.PassiveRateLimiter
}

// Eventf implements events.EventRecorder.
func (r sparingRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if (kind == corev1.EventTypeNormal || reason == issuing.WarningShortened || reason == publishlists.EventRevoked) && !r.limit.TryAccept() {
		return
	}
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

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

// Patch implements events.EventSink. The library's patch contains only the series, which the
// Event also contains.
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
