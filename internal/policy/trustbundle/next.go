// Package trustbundle decides which roots a TrustBundle has.
package trustbundle

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/truststore"
)

// Source is the content of a source.
type Source struct {
	Name string // identifies the source among those of its TrustBundle
	// Renewed means that renewals overwrite the source, so that its former roots stay for
	// the overlap. Former roots of other sources go at once.
	Renewed bool
	Roots   []*x509.Certificate
	Failed  bool // Roots are not known: the former roots of the source stay
}

// Root is a root of a TrustBundle.
type Root struct {
	Certificate *x509.Certificate
	Source      string // the name of the source that has the root, or had it last
	// RetiredUntil is when a root goes that its source has lost; zero for other roots.
	RetiredUntil time.Time
}

// Rules are the rules of a TrustBundle.
type Rules struct {
	Overlap    time.Duration // how long the former roots of renewed sources stay
	Distrusted []string      // fingerprints as pki.Fingerprint returns them
	truststore.Filter
}

// Next returns the roots that follow the former ones, sorted by fingerprint. A root with
// several sources belongs to a renewed one, if there is one. A retired root goes at the end
// of the overlap, which begins when it was first found missing, or when it expires.
func Next(before []Root, sources []Source, rules Rules, now time.Time) []Root {
	after, keep := map[string]Root{}, rules.At(now)
	add := func(root Root) {
		key := pki.Fingerprint(root.Certificate)
		if _, known := after[key]; !known && keep(root.Certificate) && !slices.Contains(rules.Distrusted, key) {
			after[key] = root
		}
	}
	for _, renewed := range []bool{true, false} {
		for _, source := range sources {
			for _, cert := range source.Roots {
				if source.Renewed == renewed {
					add(Root{Certificate: cert, Source: source.Name})
				}
			}
		}
	}
	for _, old := range before {
		i := slices.IndexFunc(sources, func(s Source) bool { return s.Name == old.Source })
		switch {
		case i < 0:
		case sources[i].Failed && old.RetiredUntil.IsZero():
			add(old)
		case sources[i].Renewed:
			if old.RetiredUntil = retirement(old, rules.Overlap, now); now.Before(old.RetiredUntil) {
				add(old)
			}
		}
	}
	var all []Root
	for _, fingerprint := range slices.Sorted(maps.Keys(after)) {
		all = append(all, after[fingerprint])
	}
	return all
}

// retirement returns when a root goes that its source has lost.
func retirement(old Root, overlap time.Duration, now time.Time) time.Time {
	until := now.Add(overlap)
	for _, end := range []time.Time{old.RetiredUntil, old.Certificate.NotAfter} {
		if !end.IsZero() && end.Before(until) {
			until = end
		}
	}
	return until
}

// Change returns when the roots change next without a change of their sources; zero if never.
func Change(roots []Root, rules Rules) (at time.Time) {
	for _, root := range roots {
		end := root.RetiredUntil
		if end.IsZero() && rules.Expired {
			end = root.Certificate.NotAfter.Add(time.Second) // valid until then, inclusive
		}
		if !end.IsZero() && (at.IsZero() || end.Before(at)) {
			at = end
		}
	}
	return at
}
