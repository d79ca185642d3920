package apitest

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Work starts the controllers of a manager. They end when stop is called, at the latest
// with the test, which fails if they have failed.
func Work(t testing.TB, mgr manager.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("the controllers ended: %v", err)
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}
