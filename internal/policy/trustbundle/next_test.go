package trustbundle_test

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/trustbundle"
	"github.com/certplane/certplane/internal/policy/truststore"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func newCA(t *testing.T, name string, lifetime time.Duration) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, lifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate()
}

// show returns the common names of roots; those of retired ones with the days until they go.
func show(roots []trustbundle.Root, at time.Time) string {
	var all []string
	for _, root := range roots {
		text := root.Certificate.Subject.CommonName
		if !root.RetiredUntil.IsZero() {
			text += "-" + root.RetiredUntil.Sub(at).Round(time.Hour).String()
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestNext(t *testing.T) {
	a, b, short := newCA(t, "a", 400*day), newCA(t, "b", 400*day), newCA(t, "short", 5*day)
	secret := func(roots ...*x509.Certificate) trustbundle.Source {
		return trustbundle.Source{Name: "secret", Renewed: true, Roots: roots}
	}
	config := func(roots ...*x509.Certificate) trustbundle.Source {
		return trustbundle.Source{Name: "config", Roots: roots}
	}
	failed := func(s trustbundle.Source) trustbundle.Source {
		s.Failed = true
		return s
	}
	type step struct {
		reason  string
		after   time.Duration
		sources []trustbundle.Source
		want    string
	}
	of := func(sources ...trustbundle.Source) []trustbundle.Source { return sources }
	rules := trustbundle.Rules{Overlap: 10 * day, Filter: truststore.Filter{Expired: true, NonCA: true}}
	strict := rules
	strict.Distrusted = []string{pki.Fingerprint(a)}
	none := rules
	none.Overlap = 0
	for _, story := range []struct {
		rules trustbundle.Rules
		steps []step
	}{
		{rules, []step{
			{"the first", 0, of(secret(a)), "a"},
			{"the Secret is overwritten", day, of(secret(b)), "a-240h0m0s b"},
			{"a day later", 2 * day, of(secret(b)), "a-216h0m0s b"},
			{"it cannot be read", 3 * day, of(failed(secret())), "a-192h0m0s b"},
			{"the end of the overlap", 11 * day, of(secret(b)), "b"},
			{"the source is taken out", 12 * day, of(config(a)), "a"},
			{"a ConfigMap is edited", 12 * day, of(config(b)), "b"},
			{"it cannot be read", 12 * day, of(failed(config()), secret(a)), "a b"},
		}},
		{rules, []step{
			{"one that ends soon", 0, of(secret(short)), "short"},
			{"its overlap is no longer than its life", day, of(secret(a)), "a short-96h0m0s"},
			{"it has ended", 6 * day, of(secret(a)), "a"},
			{"one that comes back is not retired", 6 * day, of(secret(a)), "a"},
		}},
		{rules, []step{
			{"in both", 0, of(config(a), secret(a)), "a"},
			{"the renewed source counts", 0, of(config(b), secret(b)), "a-240h0m0s b"},
		}},
		{strict, []step{{"distrusted", 0, of(secret(a, b)), "b"}, {"never retired", 0, of(secret(b)), "b"}}},
		{none, []step{{"no overlap", 0, of(secret(a)), "a"}, {"at once", day, of(secret(b)), "b"}}},
	} {
		var roots []trustbundle.Root
		for _, step := range story.steps {
			at := now.Add(step.after)
			roots = trustbundle.Next(roots, step.sources, story.rules, at)
			if got := show(roots, at); got != step.want {
				t.Errorf("%s: %q, want %q", step.reason, got, step.want)
			}
		}
	}
	// A distrusted root ends its overlap, and a shorter overlap counts from now on.
	retired := trustbundle.Next([]trustbundle.Root{{Certificate: a, Source: "secret"}}, of(secret(b)), rules, now)
	if got := show(trustbundle.Next(retired, of(secret(b)), strict, now), now); got != "b" {
		t.Errorf("distrusted: %q", got)
	}
	shorter := rules
	shorter.Overlap = day
	if got := show(trustbundle.Next(retired, of(secret(b)), shorter, now), now); got != "a-24h0m0s b" {
		t.Errorf("shorter: %q", got)
	}
	if at := trustbundle.Change(retired, rules); !at.Equal(now.Add(10 * day)) {
		t.Errorf("changes at %v", at)
	}
	if at := trustbundle.Change([]trustbundle.Root{{Certificate: short}}, rules); at.Before(short.NotAfter) || at.After(short.NotAfter.Add(time.Minute)) {
		t.Errorf("changes at %v", at)
	}
}
