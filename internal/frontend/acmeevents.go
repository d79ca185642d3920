package frontend

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
)

// How many Events the ACME server writes per second, and how many at once after a
// quiet time. Strangers cause them: no more are written, whatever they are about.
const (
	acmeEventRate  = 5
	acmeEventBurst = 100
)

// openACMEEvents returns what records Events about the requests of ACME clients, until
// stop is called. The same Event about an object is one with a count.
func openACMEEvents(api *rest.Config, kinds *runtime.Scheme, component string) (recorder events.EventRecorder, stop func(), err error) {
	writer, err := kubernetes.NewForConfig(api)
	if err != nil {
		return nil, nil, fmt.Errorf("making the client for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: writer.EventsV1()})
	ctx, cancel := context.WithCancel(context.Background())
	stop = func() {
		cancel()
		broadcaster.Shutdown()
	}
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		stop()
		return nil, nil, fmt.Errorf("recording events: %w", err)
	}
	return limitedRecorder{broadcaster.NewRecorder(kinds, component), flowcontrol.NewTokenBucketRateLimiter(acmeEventRate, acmeEventBurst)}, stop, nil
}

// limitedRecorder drops Events when there are many.
type limitedRecorder struct {
	events.EventRecorder
	limit flowcontrol.PassiveRateLimiter
}

// Eventf implements events.EventRecorder.
func (r limitedRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if r.limit.TryAccept() {
		r.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
	}
}
