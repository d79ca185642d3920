package apitest

import (
	"context"
	"crypto/sha256"
	"sync"
	"testing"
	"time"
)

// Stopwatch measures time like a clock on an idle machine, and more slowly on one whose
// processors are busy: a bound in seconds then means the same on both. It compares how long a
// fixed piece of work takes, again and again, with how long that takes without interruption.
// It is safe for concurrent use.
type Stopwatch struct {
	mu      sync.Mutex
	elapsed time.Duration // until last
	last    time.Time
	slowed  float64       // how many times as long the work took before last
	alone   time.Duration // the shortest time of a piece of the work
}

// StartStopwatch returns a Stopwatch that begins now, and runs until the test ends.
func StartStopwatch(t testing.TB) *Stopwatch {
	t.Helper()
	s := &Stopwatch{alone: time.Hour}
	s.probe()
	s.elapsed = 0
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pause := time.NewTicker(200 * time.Millisecond)
		defer pause.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
				s.probe()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return s
}

// Elapsed returns the time since the start.
func (s *Stopwatch) Elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elapsed + time.Duration(float64(time.Since(s.last))/s.slowed)
}

// probe measures how busy the machine is. Each piece of the work is so short that some are not
// interrupted. All pieces together take longer than the system lets one program run.
func (s *Stopwatch) probe() {
	const pieces = 160
	var block [256 << 10]byte
	begin, alone := time.Now(), s.alone
	for before, n := begin, 0; n < pieces; n++ {
		sha256.Sum256(block[:])
		now := time.Now()
		alone, before = min(alone, now.Sub(before)), now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.alone, s.slowed = alone, max(1, float64(now.Sub(begin))/float64(pieces*alone))
	s.elapsed, s.last = s.elapsed+time.Duration(float64(now.Sub(s.last))/s.slowed), now
}
