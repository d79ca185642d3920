package controllermanager

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/certplane/certplane/internal/issuing"
)

// written counts the events of each type.
type written struct {
	events.EventRecorder
	count map[string]int
}

func (w written) Eventf(_, _ runtime.Object, kind, _, _, _ string, _ ...any) { w.count[kind]++ }

func TestSparingRecorder(t *testing.T) {
	recorder := written{count: map[string]int{}}
	sparing := sparingRecorder{EventRecorder: recorder, limit: flowcontrol.NewFakeNeverRateLimiter()}
	for _, kind := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning, corev1.EventTypeWarning} {
		sparing.Eventf(nil, nil, kind, "Reason", "Action", "note")
	}
	sparing.Eventf(nil, nil, corev1.EventTypeWarning, issuing.WarningShortened, "Action", "note")
	if recorder.count[corev1.EventTypeNormal] != 0 || recorder.count[corev1.EventTypeWarning] != 2 {
		t.Errorf("over the limit, these were written: %v", recorder.count)
	}
	sparing.limit = flowcontrol.NewFakeAlwaysRateLimiter()
	sparing.Eventf(nil, nil, corev1.EventTypeNormal, "Reason", "Action", "note")
	if recorder.count[corev1.EventTypeNormal] != 1 {
		t.Errorf("under the limit: %v", recorder.count)
	}
}

// Programs that know only the older fields of Events see when an Event was
// first and last written, how often, and by which component, also after it is
// repeated.
func TestEventsForOlderPrograms(t *testing.T) {
	first := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"}, EventTime: metav1.NewMicroTime(first),
		ReportingController: "certplane.dev/csr-signer", ReportingInstance: "i", Action: "Sign", Reason: "Issued", Note: "note",
		Type: corev1.EventTypeNormal, Regarding: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "ns", Name: "c"},
	}
	client := fake.NewClientset()
	sink := coreEvents{client.CoreV1()}
	want := &corev1.Event{
		ObjectMeta: event.ObjectMeta, InvolvedObject: event.Regarding, EventTime: event.EventTime,
		ReportingController: "certplane.dev/csr-signer", ReportingInstance: "i", Action: "Sign", Reason: "Issued", Message: "note",
		Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: "certplane.dev/csr-signer"},
		FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(first), Count: 1,
	}
	check := func(write string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.CoreV1().Events("ns").Get(t.Context(), "e", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.TypeMeta{}, []metav1.ManagedFieldsEntry{})); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", write, diff)
		}
	}
	_, err := sink.Create(t.Context(), event)
	check("it was created", err)

	later := metav1.NewMicroTime(first.Add(time.Minute))
	event.Series = &eventsv1.EventSeries{Count: 3, LastObservedTime: later}
	want.Series = &corev1.EventSeries{Count: 3, LastObservedTime: later}
	want.Count, want.LastTimestamp = 3, metav1.NewTime(later.Time)
	_, err = sink.Patch(t.Context(), event, []byte("{}"))
	check("it was repeated", err)
}
