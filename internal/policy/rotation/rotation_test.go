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
	renewing := Rules{RotateBefore: 10 * time.Hour, KeepsKey: true}
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
		{"a request", requested, State{Current: ca(-1, 99)}, Prepare, in(1)},
		{"a request that was carried out", requested, State{Current: ca(-1, 99), Done: "now"}, Wait, in(88)},
		{"a request while a successor is there", requested, State{Current: ca(-1, 99), Next: ca(0, 100), TakesOver: in(1)}, Wait, in(1)},
		{"a young one below a root", renewing, State{Current: ca(-1, 99)}, Wait, in(89)},
		{"one below a root that is due", renewing, State{Current: ca(-90, 10)}, Renew, now},
		{"one below a root that has ended", renewing, State{Current: ca(-100, -1)}, Renew, now},
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
