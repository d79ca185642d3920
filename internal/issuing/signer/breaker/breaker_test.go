package breaker

import (
	"fmt"
	"testing"
	"time"
)

// machine drives a breaker with a clock of its own.
type machine struct {
	t   *testing.T
	b   Breaker
	now time.Time
}

func newMachine(t *testing.T) *machine {
	return &machine{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// call makes one call for a request.
func (m *machine) call(uid string, h Health) {
	m.t.Helper()
	m.b.Leave(m.enter(), h, uid, m.now)
}

func (m *machine) enter() Pass {
	m.t.Helper()
	p, _, ok := m.b.Enter(m.now)
	if !ok {
		m.t.Fatal("the call does not pass")
	}
	return p
}

func (m *machine) refused(want time.Duration) {
	m.t.Helper()
	if _, wait, ok := m.b.Enter(m.now); ok || wait != want {
		m.t.Fatalf("passes: %v, else after %v; want after %v", ok, wait, want)
	}
}

// trip opens the breaker.
func (m *machine) trip() {
	m.t.Helper()
	for i := range TripAfter {
		m.call(fmt.Sprint("request ", i), Unanswered)
	}
	m.refused(OpenFor)
}

func TestBreakerOpens(t *testing.T) {
	m := newMachine(t)
	m.trip()
	m.now = m.now.Add(OpenFor - time.Second)
	m.refused(time.Second)
}

func TestBreakerCountsRequestsInARow(t *testing.T) {
	m := newMachine(t)
	for i := range 100 {
		m.call("indigestible", Unanswered)
		m.call(fmt.Sprint("request ", i%(TripAfter-1)), Abandoned)
	}
	if m.b.Open() {
		t.Error("one request stops all others")
	}
	for i := range 100 {
		m.call(fmt.Sprint("request ", i), Unanswered)
		if i%(TripAfter-2) == 0 {
			m.call("another", Answered)
		}
	}
	if m.b.Open() {
		t.Error("an answer in between does not count")
	}
}

func TestBreakerHalfOpen(t *testing.T) {
	tests := []struct {
		reason string
		probe  Health
		opens  bool
	}{
		{"the probe is answered", Answered, false},
		{"the probe is not answered", Unanswered, true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			m := newMachine(t)
			m.trip()
			m.now = m.now.Add(OpenFor)
			probe := m.enter()
			m.refused(probeTime) // one at a time
			m.b.Leave(probe, tc.probe, "probe", m.now)
			if tc.opens {
				m.refused(OpenFor)
				return
			}
			m.enter()
			m.enter()
			m.call("a failure", Unanswered)
			if m.b.Open() {
				t.Error("once closed, it counts from the beginning")
			}
		})
	}
}

func TestBreakerAbandonedProbe(t *testing.T) {
	m := newMachine(t)
	m.trip()
	m.now = m.now.Add(OpenFor)
	m.b.Leave(m.enter(), Abandoned, "probe", m.now)
	if !m.b.Open() {
		t.Error("a probe that was abandoned closes")
	}
	m.call("next probe", Answered)
	if m.b.Open() {
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
		m.b.Leave(Pass{}, Unanswered, fmt.Sprint("late ", i), m.now)
	}
	if m.b.Silent() > TripAfter {
		t.Errorf("remembers %d requests", m.b.Silent())
	}
	m.now = m.now.Add(OpenFor / 2)
	m.b.Leave(early, Unanswered, "early", m.now)
	m.refused(OpenFor / 2)
	// But an answer is an answer.
	m.b.Leave(Pass{}, Answered, "early", m.now)
	m.enter()
}
