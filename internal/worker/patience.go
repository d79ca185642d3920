package worker

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// FirstPause and LastPause are the shortest and the longest wait before the next attempt to
// do what a process cannot do without. Each wait is twice as long as the one before.
const FirstPause, LastPause = 100 * time.Millisecond, 15 * time.Second

// sayEvery is how often the log says what is waited for.
const sayEvery = 30 * time.Second

// Waiting says from time to time in the log what is waited for.
type Waiting struct {
	// What is what is waited for.
	What string

	paused time.Duration // since the log last said it
}

// Say logs what is waited for, and why, once the pauses since it did so last are half a
// minute. pause is the one that follows.
func (w *Waiting) Say(ctx context.Context, err error, pause time.Duration) {
	if w.paused >= sayEvery {
		w.paused = 0
		klog.FromContext(ctx).Error(err, "Still waiting for "+w.What)
	}
	w.paused += pause
}

// Patiently calls try until it succeeds, fails for a reason that does not pass, or ctx
// ends. A store or an API that is slow or away, and a machine that has little time for
// this process, are no reasons to end it.
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

// Sleep waits, and reports whether ctx has not ended meanwhile.
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
