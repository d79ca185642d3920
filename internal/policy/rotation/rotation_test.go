package rotation

import (
	"crypto/x509"
	"testing"
	"time"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// ca begins and ends so many hours from now.
func ca(begin, end int) *x509.Certificate {
	return &x509.Certificate{NotBefore: in(begin), NotAfter: in(end)}
}

func in(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }

func TestNext(t *testing.T) {
	rules := Rules{RotateBefore: 10 * time.Hour, Propagation: time.Hour}
	wished := rules
	wished.Wish = "now"
	for _, tc := range []struct {
		reason string
		rules  Rules
		state  State
		step   Step
		at     time.Time
	}{
		{"no CA", rules, State{}, Make, now},
		{"a young one", rules, State{Current: ca(-1, 99)}, Wait, in(88)},
		{"one that is due", rules, State{Current: ca(-89, 11)}, Prepare, in(1)},
		{"its successor is being published", rules, State{Current: ca(-89, 11), Next: ca(0, 100), TakesOver: in(1)}, Wait, in(1)},
		{"its successor's time has come", rules, State{Current: ca(-90, 10), Next: ca(-1, 99), TakesOver: now}, TakeOver, now},
		{"a successor without a time", rules, State{Current: ca(-90, 10), Next: ca(-1, 99)}, TakeOver, now},
		{"one that ends before the propagation", rules, State{Current: &x509.Certificate{NotBefore: in(-99), NotAfter: now.Add(time.Minute)}}, Prepare, now.Add(time.Minute)},
		{"one that has ended", rules, State{Current: ca(-100, -1)}, Prepare, in(-1)},
		{"one that has ended while its successor was published", rules, State{Current: ca(-100, 0), Next: ca(0, 100), TakesOver: in(1)}, TakeOver, now},
		{"a wish", wished, State{Current: ca(-1, 99)}, Prepare, in(1)},
		{"a wish that is fulfilled", wished, State{Current: ca(-1, 99), Done: "now"}, Wait, in(88)},
		{"a wish while a successor is there", wished, State{Current: ca(-1, 99), Next: ca(0, 100), TakesOver: in(1)}, Wait, in(1)},
		{"one whose rules are for longer lives", rules, State{Current: ca(-1, 9)}, Wait, in(4)},
	} {
		step, at := tc.rules.Next(tc.state, now)
		if step != tc.step || !at.Equal(tc.at) {
			t.Errorf("%s: step %d at %v, want %d at %v", tc.reason, step, at, tc.step, tc.at)
		}
	}
}

func TestTrustUntil(t *testing.T) {
	for _, tc := range []struct {
		reason string
		end    time.Time
		want   time.Time
	}{
		{"until the last certificate has ended", in(99), in(24)},
		{"or the CA itself", in(9), in(9)},
	} {
		if got := TrustUntil(tc.end, 24*time.Hour, now); !got.Equal(tc.want) {
			t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
		}
	}
}
