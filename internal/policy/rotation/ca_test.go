package rotation

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

func newPair(t *testing.T, name string, begin time.Time) Pair {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := NewRoot(pki.UnrecordedSigning, name, key, 100*time.Hour, begin)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestSettle takes a CA through its life.
func TestSettle(t *testing.T) {
	rules := Rules{RotateBefore: 10 * time.Hour, Propagation: time.Hour, Request: "first"}
	var steps []Step
	store := func(step Step, _ CA) error {
		steps = append(steps, step)
		return nil
	}
	var seen Sightings
	settle := func(ca CA, at time.Time, want ...Step) (CA, time.Time) {
		t.Helper()
		steps = nil
		root := seen.See(ca.Next.certificate(), true, at)
		create := func() (Pair, error) { return newPair(t, "ca", at), nil }
		after, again, err := rules.Settle(ca, root, at, create, store)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(steps, want) {
			t.Fatalf("steps %v, want %v", steps, want)
		}
		return after, again
	}
	made, due := settle(CA{}, now, Make)
	if made.Done != "first" || made.Next.Authority != nil || len(made.Certificates()) != 1 {
		t.Errorf("made %+v", made)
	}
	prepared, _ := settle(made, due, Prepare)
	if !prepared.TakesOver.Equal(Never) {
		t.Errorf("it takes over on %v, before it was published", prepared.TakesOver)
	}
	prepared, again := settle(prepared, due.Add(5*time.Hour), Schedule)
	if prepared.Current.Authority != made.Current.Authority || prepared.Next.Authority == nil || !again.Equal(prepared.TakesOver) || len(prepared.Certificates()) != 2 {
		t.Errorf("prepared %+v, again at %v", prepared, again)
	}
	taken, _ := settle(prepared, again, TakeOver)
	if taken.Current.Authority != prepared.Next.Authority || taken.Next.Authority != nil || !taken.TakesOver.IsZero() || len(taken.Former) != 1 || !taken.Former[0].Equal(made.Current.Certificate()) {
		t.Errorf("taken over %+v", taken)
	}
	if len(prepared.Former) != 0 {
		t.Error("a CA from before a step has changed")
	}
	rules.Request = "second"
	requested, _ := settle(taken, again, Prepare)
	if requested.Done != "second" {
		t.Errorf("done %q", requested.Done)
	}
}

func TestSettleFails(t *testing.T) {
	rules, refused := Rules{Propagation: time.Hour}, errors.New("refused")
	create := func() (Pair, error) { return newPair(t, "ca", now), nil }
	stored := func(Step, CA) error { return nil }
	if after, _, err := rules.Settle(CA{}, Publication{}, now, create, func(Step, CA) error { return refused }); !errors.Is(err, refused) || after.Current.Authority != nil {
		t.Errorf("what could not be stored: %+v, %v", after, err)
	}
	if _, _, err := rules.Settle(CA{}, Publication{}, now, func() (Pair, error) { return Pair{}, refused }, stored); !errors.Is(err, refused) {
		t.Errorf("what could not be made: %v", err)
	}
	// Each CA that is made is over already.
	rules.Publishes = true
	if _, _, err := rules.Settle(CA{}, Publication{}, now.Add(1000*time.Hour), create, stored); !errors.Is(err, ErrUnsettled) {
		t.Errorf("no end: %v", err)
	}
}

// What the versions before have stored is read, and what is stored is the same:
// they read it too.
func TestStoredForm(t *testing.T) {
	current, next, former := newPair(t, "current", now), newPair(t, "next", now), newPair(t, "former", now)
	tests := []struct {
		reason string
		keys   Keys
		data   map[string][]byte
	}{
		{
			"the Secret of a Signer", Keys{Cert: "tls.crt", Key: "tls.key", NextCert: "next.crt", NextKey: "next.key"},
			map[string][]byte{"tls.crt": current.certPEM, "tls.key": current.keyPEM, "next.crt": next.certPEM, "next.key": next.keyPEM},
		},
		{
			"one without a next CA", Keys{Cert: "tls.crt", Key: "tls.key", NextCert: "next.crt", NextKey: "next.key"},
			map[string][]byte{"tls.crt": append([]byte("# by hand\n"), current.certPEM...), "tls.key": current.keyPEM},
		},
		{
			"the Secret of a webhook", Keys{Cert: "ca.crt", Key: "ca.key", NextCert: "n.crt", NextKey: "n.key", Former: "former.crt"},
			map[string][]byte{
				"ca.crt": current.certPEM, "ca.key": current.keyPEM, "n.crt": next.certPEM, "n.key": next.keyPEM,
				"former.crt": pki.EncodeCertificates(former.Certificate()),
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			ca, err := tc.keys.Parse(tc.data)
			if err != nil {
				t.Fatal(err)
			}
			stored := map[string][]byte{"other": []byte("stays")}
			for key := range tc.data {
				stored[key] = []byte("before")
			}
			if tc.keys.NextCert != "" && tc.data[tc.keys.NextCert] == nil {
				stored[tc.keys.NextCert] = []byte("over")
			}
			tc.keys.Put(stored, ca)
			want := maps.Clone(tc.data)
			want["other"] = []byte("stays")
			if !maps.EqualFunc(stored, want, bytes.Equal) {
				t.Errorf("stored %q, want %q", stored, want)
			}
		})
	}
}

func TestParseNamesTheKey(t *testing.T) {
	keys := Keys{Cert: "tls.crt", Key: "tls.key", NextCert: "next.crt", NextKey: "next.key", Former: "former.crt"}
	pair, other := newPair(t, "a", now), newPair(t, "b", now)
	good := map[string][]byte{"tls.crt": pair.certPEM, "tls.key": pair.keyPEM}
	for _, tc := range []struct{ key, value, want string }{
		{"tls.crt", "s3cret", "tls.crt"},
		{"tls.key", "s3cret", "tls.key"},
		{"tls.key", string(other.keyPEM), "tls.key"},
		{"next.crt", "s3cret", "next.crt"},
		{"next.crt", string(other.certPEM), "next.key"}, // is missing
		{"former.crt", "s3cret", "former.crt"},
	} {
		data := maps.Clone(good)
		data[tc.key] = []byte(tc.value)
		if _, err := keys.Parse(data); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("a wrong %s: %v", tc.key, err)
		}
	}
}
