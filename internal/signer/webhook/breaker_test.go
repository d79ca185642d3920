package webhook

import (
	"fmt"
	"testing"
	"time"
)

// machine drives a breaker with a clock of its own.
type machine struct {
	t   *testing.T
	b   breaker
	now time.Time
}

func newMachine(t *testing.T) *machine {
	return &machine{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// call makes one call for a request.
func (m *machine) call(uid string, h health) {
	m.t.Helper()
	m.b.leave(m.enter(), h, uid, m.now)
}

func (m *machine) enter() pass {
	m.t.Helper()
	p, _, ok := m.b.enter(m.now)
	if !ok {
		m.t.Fatal("the call does not pass")
	}
	return p
}

func (m *machine) refused(want time.Duration) {
	m.t.Helper()
	if _, wait, ok := m.b.enter(m.now); ok || wait != want {
		m.t.Fatalf("passes: %v, else after %v; want after %v", ok, wait, want)
	}
}

// trip opens the breaker.
func (m *machine) trip() {
	m.t.Helper()
	for i := range tripAfter {
		m.call(fmt.Sprint("request ", i), unanswered)
	}
	m.refused(openFor)
}

func TestBreakerOpens(t *testing.T) {
	m := newMachine(t)
	m.trip()
	m.now = m.now.Add(openFor - time.Second)
	m.refused(time.Second)
}

func TestBreakerCountsRequestsInARow(t *testing.T) {
	m := newMachine(t)
	for i := range 100 {
		m.call("indigestible", unanswered)
		m.call(fmt.Sprint("request ", i%(tripAfter-1)), abandoned)
	}
	if m.b.open() {
		t.Error("one request stops all others")
	}
	for i := range 100 {
		m.call(fmt.Sprint("request ", i), unanswered)
		if i%(tripAfter-2) == 0 {
			m.call("another", answered)
		}
	}
	if m.b.open() {
		t.Error("an answer in between does not count")
	}
}

func TestBreakerHalfOpen(t *testing.T) {
	tests := []struct {
		reason string
		probe  health
		opens  bool
	}{
		{"the probe is answered", answered, false},
		{"the probe is not answered", unanswered, true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			m := newMachine(t)
			m.trip()
			m.now = m.now.Add(openFor)
			probe := m.enter()
			m.refused(probeTime) // one at a time
			m.b.leave(probe, tc.probe, "probe", m.now)
			if tc.opens {
				m.refused(openFor)
				return
			}
			m.enter()
			m.enter()
			m.call("a failure", unanswered)
			if m.b.open() {
				t.Error("once closed, it counts from the beginning")
			}
		})
	}
}

func TestBreakerAbandonedProbe(t *testing.T) {
	m := newMachine(t)
	m.trip()
	m.now = m.now.Add(openFor)
	m.b.leave(m.enter(), abandoned, "probe", m.now)
	if !m.b.open() {
		t.Error("a probe that was abandoned closes")
	}
	m.call("next probe", answered)
	if m.b.open() {
		t.Error("still open")
	}
}

// Calls that began before the breaker opened give no new information when they
// fail.
func TestBreakerLateFailure(t *testing.T) {
	m := newMachine(t)
	early := m.enter()
	m.trip()
	for i := range 100 {
		m.b.leave(pass{}, unanswered, fmt.Sprint("late ", i), m.now)
	}
	if len(m.b.silent) > tripAfter {
		t.Errorf("remembers %d requests", len(m.b.silent))
	}
	m.now = m.now.Add(openFor / 2)
	m.b.leave(early, unanswered, "early", m.now)
	m.refused(openFor / 2)
	// But an answer is an answer.
	m.b.leave(pass{}, answered, "early", m.now)
	m.enter()
}
