package worker_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/process/worker"
)

// After a day of failures, a fix is noticed within seconds.
func TestRetries(t *testing.T) {
	limiter := worker.InEveryProcess().RateLimiter
	for range 5000 {
		if pause := limiter.When(reconcile.Request{}); pause > 15*time.Second {
			t.Fatalf("the next attempt is in %s", pause)
		}
	}
}
