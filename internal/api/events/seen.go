package events

import (
	"time"

	eventsv1 "k8s.io/api/events/v1"
)

// LastSeen returns when an event was last seen, whichever API group it was
// written through.
func LastSeen(e eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	case !e.DeprecatedLastTimestamp.IsZero():
		return e.DeprecatedLastTimestamp.Time
	}
	return e.CreationTimestamp.Time
}
