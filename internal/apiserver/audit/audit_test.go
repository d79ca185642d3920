package audit

import (
	"testing"
	"time"

	"k8s.io/apiserver/pkg/audit"
)

// stuck is a backend that never stops.
type stuck struct{ audit.Backend }

func (stuck) Shutdown() { select {} }

// gone is a backend that stops immediately.
type gone struct {
	audit.Backend
	stopped *bool
}

func (g gone) Shutdown() { *g.stopped = true }

func TestWebhooksDoNotHoldUpTheEnd(t *testing.T) {
	stopWithTimeout{stuck{}, time.Millisecond}.Shutdown() // Shutdown returns
	var stopped bool
	stopWithTimeout{gone{stopped: &stopped}, time.Hour}.Shutdown()
	if !stopped {
		t.Error("a webhook that answers was not waited for")
	}
}
