package steadyclock

import (
	"testing"
	"time"
)

// machine is a clock that can be set. Its times have a monotonic reading.
type machine struct {
	begin  time.Time
	passed time.Duration
	set    time.Duration // by how much the time of day was changed
}

// now returns a time whose monotonic reading is that of passed, and whose time of day was
// set. Adding to a time changes both readings; JSON and Round remove the second one. So
// the two are joined by way of the difference that Sub sees.
func (m *machine) now() time.Time { return m.begin.Add(m.passed) }

// A clock that is set is like two readings that disagree: Of compares the time of day with
// the duration, so the test moves what was expected instead.
func (m *machine) setAhead(c *Clock, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.set += by
	c.origin = c.origin.Add(-by)
}

func TestJumps(t *testing.T) {
	m := &machine{begin: time.Now()}
	c := Of(m.now)
	ahead := func() time.Duration { return m.now().Round(0).Sub(c.Now().Round(0)) }
	step := func(reason string, passed, set, want time.Duration) {
		t.Helper()
		m.passed += passed
		m.setAhead(c, set)
		if got := ahead(); got != want {
			t.Errorf("%s: the clock is %v behind that of the machine, want %v", reason, got, want)
		}
	}
	step("time passes", 24*time.Hour, 0, 0)
	step("a correction", time.Second, 30*time.Second, 0)
	step("two hours ahead", time.Second, 2*time.Hour, 2*time.Hour)
	step("still ahead", 59*time.Minute, 0, 2*time.Hour)
	step("right again", time.Second, -2*time.Hour, 0)
	step("ahead again", time.Second, 2*time.Hour, 2*time.Hour)
	step("ahead for an hour", time.Hour, 0, 0)
	step("a day later", 24*time.Hour, 0, 0)
	step("back", time.Second, -2*time.Hour, 0)
	step("back for good", time.Hour, 0, 0)
}

// Clocks of tests are believed.
func TestWithoutSecondClock(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	c := Of(func() time.Time { return now })
	now = now.Add(1000 * time.Hour)
	if got := c.Now(); !got.Equal(now) {
		t.Errorf("got %v, want %v", got, now)
	}
}
