package rotation

import (
	"crypto"
	"crypto/x509"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// ca begins and ends so many hours from now.
func ca(begin, end int) *x509.Certificate {
	return &x509.Certificate{NotBefore: in(begin), NotAfter: in(end)}
}

func in(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }

func TestNext(t *testing.T) {
	rules := Rules{RotateBefore: 10 * time.Hour, Propagation: time.Hour}
	requested := rules
	requested.Request = "now"
	owner := rules
	owner.Publishes = true
	renewing := Rules{RotateBefore: 10 * time.Hour, KeepsKey: true}
	published := func(minutes int) Publication {
		return Publication{Published: true, For: time.Duration(minutes) * time.Minute}
	}
	due := ca(-89, 11)
	for _, tc := range []struct {
		reason string
		rules  Rules
		state  State
		root   Publication
		step   Step
		at     time.Time
	}{
		{"no CA", rules, State{}, Publication{}, Make, now},
		{"a young one", rules, State{Current: ca(-1, 99)}, Publication{}, Wait, in(88)},
		{"one that is due", rules, State{Current: due}, Publication{}, Prepare, now},
		{"its successor is not published", rules, State{Current: due, Next: ca(0, 100), TakesOver: Never}, Publication{}, Wait, now.Add(lookAgain)},
		{"its successor is not published, and is to be for seconds", Rules{RotateBefore: 10 * time.Hour, Propagation: 10 * time.Second}, State{Current: due, Next: ca(0, 100), TakesOver: Never}, Publication{}, Wait, now.Add(time.Second / 2)},
		{"its successor is published", rules, State{Current: due, Next: ca(0, 100), TakesOver: Never}, published(0), Schedule, in(1)},
		{"its successor was prepared by an earlier version", rules, State{Current: due, Next: ca(0, 100), TakesOver: in(1)}, published(0), Wait, in(1)},
		{"its successor's time has come", rules, State{Current: ca(-90, 10), Next: ca(-1, 99), TakesOver: now}, published(10), TakeOver, now},
		{"its time has come, and this process has just begun", rules, State{Current: ca(-90, 10), Next: ca(-1, 99), TakesOver: now}, published(4), Wait, now.Add(6 * time.Minute)},
		{"its time has come, and its root is gone", rules, State{Current: ca(-90, 10), Next: ca(-1, 99), TakesOver: now}, Publication{}, Hold, now},
		{"its root is gone", rules, State{Current: ca(-90, 10), Next: ca(-1, 99), TakesOver: in(1)}, Publication{}, Hold, now},
		{"a successor without a time, published", rules, State{Current: ca(-90, 10), Next: ca(-1, 99)}, published(60), Schedule, in(1)},
		{"a successor without a time", rules, State{Current: ca(-90, 10), Next: ca(-1, 99)}, Publication{}, Wait, now.Add(lookAgain)},
		{"a successor that a person has distributed", rules, State{Current: ca(-90, 10), Next: ca(-1, 99), TakesOver: Never}, Publication{Confirmed: true}, TakeOver, now},
		{"one that has ended", rules, State{Current: ca(-100, -1)}, Publication{}, Prepare, now},
		{"one that has ended while its successor was published", rules, State{Current: ca(-100, 0), Next: ca(0, 100), TakesOver: in(1)}, published(0), TakeOver, now},
		{"one that has ended, and its successor is not published", rules, State{Current: ca(-100, 0), Next: ca(0, 100), TakesOver: Never}, Publication{}, Wait, now.Add(lookAgain)},
		{"one that has ended, and the caller publishes its successor", owner, State{Current: ca(-100, 0), Next: ca(0, 100), TakesOver: Never}, Publication{}, TakeOver, now},
		{"one that ends before the propagation", rules, State{Current: &x509.Certificate{NotBefore: in(-99), NotAfter: now.Add(time.Minute)}, Next: ca(0, 100)}, published(0), Schedule, now.Add(time.Minute)},
		{"a request", requested, State{Current: ca(-1, 99)}, Publication{}, Prepare, now},
		{"a request that was carried out", requested, State{Current: ca(-1, 99), Done: "now"}, Publication{}, Wait, in(88)},
		{"a request while a successor is there", requested, State{Current: ca(-1, 99), Next: ca(0, 100), TakesOver: in(1)}, published(0), Wait, in(1)},
		{"a young one below a root", renewing, State{Current: ca(-1, 99)}, Publication{}, Wait, in(89)},
		{"one below a root that is due", renewing, State{Current: ca(-90, 10)}, Publication{}, Renew, now},
		{"one below a root that has ended", renewing, State{Current: ca(-100, -1)}, Publication{}, Renew, now},
		{"one whose rules are for longer lives", rules, State{Current: ca(-1, 9)}, Publication{}, Wait, in(4)},
	} {
		step, at := tc.rules.Next(tc.state, tc.root, now)
		if step != tc.step || !at.Equal(tc.at) {
			t.Errorf("%s: step %d at %v, want %d at %v", tc.reason, step, at, tc.step, tc.at)
		}
	}
}

func TestSightings(t *testing.T) {
	var seen Sightings
	a, b := newPair(t, "a", now).Certificate(), newPair(t, "b", now).Certificate()
	for _, tc := range []struct {
		reason    string
		next      *x509.Certificate
		published bool
		at        int
		want      time.Duration
	}{
		{"the first time", a, true, 0, 0},
		{"an hour later", a, true, 1, time.Hour},
		{"it is gone", a, false, 2, -1},
		{"it is back", a, true, 3, 0},
		{"another one", b, true, 4, 0},
		{"there is none", nil, true, 5, -1},
	} {
		want := Publication{Published: tc.want >= 0, For: max(tc.want, 0)}
		if got := seen.See(tc.next, tc.published, in(tc.at)); got != want {
			t.Errorf("%s: %+v, want %+v", tc.reason, got, want)
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

func TestRenewal(t *testing.T) {
	key := func() crypto.Signer {
		t.Helper()
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	root := newPair(t, "root", in(-2)) // for 100 hours
	issue := func(name string, key crypto.Signer, lifetime time.Duration, at time.Time) *x509.Certificate {
		t.Helper()
		issued, err := root.NewIntermediate(pki.UnrecordedSigning, name, key, lifetime, at)
		if err != nil {
			t.Fatal(err)
		}
		return issued.Certificate()
	}
	own := key()
	ca := issue("ca", own, 10*time.Hour, now)
	for _, tc := range []struct {
		reason  string
		cert    *x509.Certificate
		renewed bool
	}{
		{"the same", ca, false},
		{"a later one", issue("ca", own, 10*time.Hour, in(1)), true},
		{"an earlier one", issue("ca", own, 10*time.Hour, in(-1)), false},
		{"another key", issue("ca", key(), 10*time.Hour, in(1)), false},
		{"another name", issue("other", own, 10*time.Hour, in(1)), false},
	} {
		if got := IsRenewed(tc.cert, ca); got != tc.renewed {
			t.Errorf("%s: renewed %t, want %t", tc.reason, got, tc.renewed)
		}
	}
	if !Renews(root.Certificate(), ca) || Renews(newPair(t, "root", now).Certificate(), ca) {
		t.Error("not its root alone renews it")
	}
	if Renews(root.Certificate(), issue("ca", own, 1000*time.Hour, now)) {
		t.Error("a root renews what ends with it")
	}
}
