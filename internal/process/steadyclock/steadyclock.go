// Package steadyclock provides the time to components that delete data when it expires.
//
// The clock of a machine can be set ahead by mistake, and back again; data deleted in
// between is lost. The process has a second clock, which only measures durations and cannot
// be set.
package steadyclock

import (
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// tolerance is how far the clock may run ahead of the second clock: clocks are corrected
	// all the time.
	tolerance = time.Minute
	// patience is how long the clock must stay ahead until it is believed.
	patience = time.Hour
)

// Clock is a clock that follows a jump ahead an hour later, and only if that is still the
// time then. It follows a jump back at once. It is safe for concurrent use.
type Clock struct {
	now func() time.Time

	mu sync.Mutex // guards the rest
	// begin is the first reading, and origin the time of day that belongs to it, by later
	// readings.
	begin, origin time.Time
	// ahead is the reading that was the first one ahead; zero if the last one was not.
	ahead time.Time
}

var _ clock.PassiveClock = (*Clock)(nil)

// New returns a clock that follows the machine's clock.
func New() *Clock { return Of(clock.RealClock{}.Now) }

// Of returns a clock that follows the one that now reads. It believes times without a
// monotonic reading, such as those of tests, at once.
func Of(now func() time.Time) *Clock {
	begin := now()
	return &Clock{now: now, begin: begin, origin: begin.Round(0)}
}

// Now implements clock.PassiveClock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := c.now()
	passed := read.Sub(c.begin) // by the second clock, if the times have it
	expected := c.origin.Add(passed)
	jump := read.Round(0).Sub(expected)
	switch {
	case jump <= tolerance:
		c.ahead = time.Time{}
	case c.ahead.IsZero():
		c.ahead = read
		klog.InfoS("The clock of this machine jumped ahead; data that expired by it is deleted if it stays ahead", "by", jump.Round(time.Second), "for", patience)
		return expected
	case read.Sub(c.ahead) < patience:
		return expected
	}
	c.origin = c.origin.Add(jump)
	return read
}

// Since implements clock.PassiveClock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
