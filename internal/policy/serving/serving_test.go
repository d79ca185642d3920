package serving_test

import (
	"bytes"
	"crypto/x509"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/policy/serving"
)

const day = 24 * time.Hour

var (
	begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hook  = serving.Server{Name: "hook", Hosts: []string{"hook.ns.svc"}}
)

// next is Next for a state that has been stored and read again, in a process that has
// seen its bundle published.
func next(t *testing.T, v serving.Server, seen *rotation.Sightings, s serving.State, now time.Time) (serving.State, bool, time.Time) {
	t.Helper()
	after, changed, again, err := v.Next(s, seen, now, func(string) pki.Signing { return pki.UnrecordedSigning })
	if err != nil {
		t.Fatal(err)
	}
	data, err := after.Data()
	if err != nil {
		t.Fatal(err)
	}
	read, err := serving.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return read, changed, again
}

// verify checks what a state serves against a bundle.
func verify(t *testing.T, s serving.State, bundle []byte, host string, now time.Time) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("the bundle is empty")
	}
	_, err := s.Certificate().Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: now})
	return err
}

// Over three years, a client with a bundle of up to eight hours ago always
// trusts the served certificate, whether the client or the server is late. The
// CA and the certificate are replaced, each some time before its end.
func TestNeverUntrusted(t *testing.T) {
	seen := &rotation.Sightings{}
	s, changed, _ := next(t, hook, seen, serving.State{}, begin)
	if !changed {
		t.Fatal("nothing was made")
	}
	cas, leaves := map[string]bool{}, map[string]bool{}
	before := s
	for now := begin; now.Before(begin.Add(1100 * day)); now = now.Add(8 * time.Hour) {
		after, changed, again := next(t, hook, seen, s, now)
		if !again.After(now) {
			t.Fatalf("%s: look again at %s", now, again)
		}
		for _, pair := range [][2]serving.State{{after, after}, {before, after}, {after, before}} {
			if err := verify(t, pair[0], pair[1].Bundle(), "hook.ns.svc", now); err != nil {
				t.Fatalf("%s: %v", now, err)
			}
		}
		if left := after.Certificate().Leaf.NotAfter.Sub(now); left < 20*day {
			t.Fatalf("%s: the certificate ends in %s", now, left)
		}
		if n := bytes.Count(after.Bundle(), []byte("BEGIN")); n > 3 {
			t.Fatalf("%s: %d CAs are trusted", now, n)
		}
		if !changed && !bytes.Equal(after.Bundle(), s.Bundle()) {
			t.Fatalf("%s: it has changed without a word", now)
		}
		before, s = s, after
		cas[s.Certificate().Leaf.Issuer.CommonName] = true
		leaves[s.Certificate().Leaf.SerialNumber.String()] = true
	}
	if len(cas) != 5 || len(leaves) < 18 || len(leaves) > 25 {
		t.Errorf("in three years there were %d CAs and %d certificates", len(cas), len(leaves))
	}
}

// The next CA is known a day before it signs.
func TestNextCAIsPublishedFirst(t *testing.T) {
	seen := &rotation.Sightings{}
	s, _, _ := next(t, hook, seen, serving.State{}, begin)
	first := s.Bundle()
	var again time.Time
	for now := begin; bytes.Count(s.Bundle(), []byte("BEGIN")) == 1; now = again {
		s, _, again = next(t, hook, seen, s, now)
		if err := verify(t, s, first, "hook.ns.svc", now); err != nil {
			t.Fatalf("another CA signs at %s and was not published: %v", now, err)
		}
		if bytes.Count(s.Bundle(), []byte("BEGIN")) == 2 {
			// The process was away for two days before anybody could see the bundle.
			now = now.Add(48 * time.Hour)
			scheduled, changed, _ := next(t, hook, seen, s, now)
			if !changed || verify(t, scheduled, first, "hook.ns.svc", now) != nil {
				t.Error("it signs before it was published, or never will")
			}
			s = scheduled
			if _, changed, _ := next(t, hook, seen, s, now.Add(23*time.Hour)); changed {
				t.Error("it signs before a day is over")
			}
			if _, changed, _ := next(t, hook, &rotation.Sightings{}, s, now.Add(25*time.Hour)); changed {
				t.Error("it signs in a process that has not seen it published")
			}
			taken, changed, _ := next(t, hook, seen, s, now.Add(25*time.Hour))
			if !changed || verify(t, taken, first, "hook.ns.svc", now.Add(25*time.Hour)) == nil || verify(t, taken, s.Bundle(), "hook.ns.svc", now.Add(25*time.Hour)) != nil {
				t.Error("it does not sign after a day")
			}
		}
	}
}

// A process that was off for years begins again.
func TestAfterTheEnd(t *testing.T) {
	seen := &rotation.Sightings{}
	s, _, _ := next(t, hook, seen, serving.State{}, begin)
	late := begin.Add(1000 * day)
	s, changed, _ := next(t, hook, seen, s, late)
	if err := verify(t, s, s.Bundle(), "hook.ns.svc", late); !changed || err != nil {
		t.Error(err)
	}
	if n := bytes.Count(s.Bundle(), []byte("BEGIN")); n != 1 {
		t.Errorf("%d CAs are trusted", n)
	}
}

// A certificate gets the names that it lacks at once, from the same CA, and
// keeps those that are no longer needed until it is renewed.
func TestHosts(t *testing.T) {
	seen := &rotation.Sightings{}
	s, _, _ := next(t, hook, seen, serving.State{}, begin)
	more := serving.Server{Name: "hook", Hosts: []string{"hook.ns.svc", "127.0.0.1", "::1", "hook.example.com"}}
	with, changed, _ := next(t, more, seen, s, begin)
	if !changed || !bytes.Equal(with.Bundle(), s.Bundle()) {
		t.Error("the names are not there, or there is another CA")
	}
	for _, host := range more.Hosts {
		if err := with.Certificate().Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if _, changed, _ := next(t, hook, seen, with, begin); changed {
		t.Error("a name too many is a reason for another certificate")
	}
}

// Invalid data is an error that names the key, and does not show its content.
func TestParseRefuses(t *testing.T) {
	seen := &rotation.Sightings{}
	s, _, _ := next(t, hook, seen, serving.State{}, begin)
	other, _, _ := next(t, hook, seen, serving.State{}, begin)
	good, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Data()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serving.Parse(nil); err == nil {
		t.Error("nothing is a state")
	}
	for key := range good {
		if key == "ca.crt" {
			continue // for others to read
		}
		for reason, value := range map[string][]byte{"missing": nil, "garbage": []byte("s3cret"), "another's": foreign[key]} {
			broken := maps.Clone(good)
			broken[key] = value
			_, err := serving.Parse(broken)
			if err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(strings.TrimSuffix(key, ".key"), ".crt")) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s %s: %v", key, reason, err)
			}
		}
	}
}
