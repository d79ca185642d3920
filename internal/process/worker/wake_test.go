package worker

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/klog/v2/ktesting"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// What fails because the process stops is not logged, and all else is.
func TestCannotWake(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	logged, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatal("the logger keeps no lines")
	}
	ctx, stop := context.WithCancel(log.IntoContext(t.Context(), logger))
	CannotWake(ctx, errors.New("no cache"), "Cannot list them", "name", "a")
	stop()
	CannotWake(ctx, errors.New("stopped"), "Cannot list them")
	if text := logged.GetBuffer().String(); strings.Count(text, "Cannot list them") != 1 || !strings.Contains(text, "no cache") {
		t.Errorf("logged: %s", text)
	}
}
