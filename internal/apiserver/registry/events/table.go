package events

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

func table() kind.Table[corev1.Event] {
	event := corev1.Event{}.SwaggerDoc()
	name := kind.Name()
	name.Priority = 1
	return kind.Table[corev1.Event]{
		Columns: []metav1.TableColumnDefinition{
			kind.Column("Last Seen", event["lastTimestamp"]),
			kind.Column("Type", event["type"]),
			kind.Column("Reason", event["reason"]),
			kind.Column("Object", event["involvedObject"]),
			kind.Wide("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"]),
			kind.Wide("Source", event["source"]),
			kind.Column("Message", event["message"]),
			kind.Wide("First Seen", event["firstTimestamp"]),
			kind.Wide("Count", event["count"]),
			name,
		},
		Cells: func(event *corev1.Event, now time.Time) []any {
			first, last := firstAndLastSeen(event)
			return []any{
				kind.Age(last, now), event.Type, event.Reason, objectCell(event.InvolvedObject),
				event.InvolvedObject.FieldPath, sourceCell(event), strings.TrimSpace(event.Message),
				kind.Age(first, now), count(event), event.Name,
			}
		},
	}
}

// firstAndLastSeen returns when an event was first and last seen. The older and
// the newer kind of events have this in different fields.
func firstAndLastSeen(event *corev1.Event) (first, last metav1.Time) {
	first = event.FirstTimestamp
	if first.IsZero() {
		first = metav1.Time{Time: event.EventTime.Time}
	}
	switch {
	case event.Series != nil:
		return first, metav1.Time{Time: event.Series.LastObservedTime.Time}
	case event.LastTimestamp.IsZero():
		return first, first
	default:
		return first, event.LastTimestamp
	}
}

func count(event *corev1.Event) int64 {
	switch {
	case event.Series != nil:
		return int64(event.Series.Count)
	case event.Count == 0:
		return 1
	default:
		return int64(event.Count)
	}
}

func objectCell(object corev1.ObjectReference) string {
	if object.Name == "" {
		return strings.ToLower(object.Kind)
	}
	return strings.ToLower(object.Kind) + "/" + object.Name
}

func sourceCell(event *corev1.Event) string {
	component, host := event.Source.Component, event.Source.Host
	if component == "" {
		component, host = event.ReportingController, event.ReportingInstance
	}
	if host == "" {
		return component
	}
	return component + ", " + host
}
