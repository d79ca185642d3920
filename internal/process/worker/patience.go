package worker

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// FirstPause and LastPause are the shortest and the longest wait before the next attempt of
// something essential to a process. Each wait is twice as long as the one before.
const FirstPause, LastPause = 100 * time.Millisecond, 15 * time.Second

// sayEvery is the interval of log messages while waiting.
const sayEvery = 30 * time.Second

// Waiting logs from time to time what a caller waits for.
type Waiting struct {
	// What is the noun phrase after "Still waiting for" in the log.
	What string

	paused time.Duration // since the log last said it
}

// Say logs err and what the caller waits for, if the pauses since the last message add up to
// sayEvery. pause is the pause that follows.
func (w *Waiting) Say(ctx context.Context, err error, pause time.Duration) {
	if w.paused >= sayEvery {
		w.paused = 0
		klog.FromContext(ctx).Error(err, "Still waiting for "+w.What)
	}
	w.paused += pause
}

// Patiently calls try until it succeeds, fails with an error for which passes reports false,
// or ctx ends. A process should not end because a store or an API is slow or unreachable, or
// because the machine is busy.
func Patiently(ctx context.Context, what string, passes func(error) bool, try func(context.Context) error) error {
	said := Waiting{What: what, paused: sayEvery} // an attempt has its own limit, and may have taken long
	for pause := FirstPause; ; pause = min(2*pause, LastPause) {
		err := try(ctx)
		if err == nil || ctx.Err() != nil || !passes(err) {
			return err
		}
		said.Say(ctx, err, pause)
		if !Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// Sleep waits for pause, and reports false if ctx ends first.
func Sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
