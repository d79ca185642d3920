// Package rotation decides when the CAs and the certificates that certplane has
// generated for itself are replaced.
package rotation

import (
	"bytes"
	"crypto/x509"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// State is the part of a CA that Rules decide by.
type State struct {
	// Current signs; nil means that the CA is not generated yet.
	Current *x509.Certificate
	// Next is to sign from TakesOver on and is published already; nil means
	// that there is none.
	Next *x509.Certificate
	// TakesOver is the zero time or Never until a time is set.
	TakesOver time.Time
	// Done is the last rotation request that was carried out.
	Done string
}

// Never is the time at which a next CA takes over whose root is not published: it
// is stored in the place of a time, so that earlier versions of certplane, which
// know only the time, wait as well.
var Never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// Publication is the state of publishing the root of the next CA to verifiers of
// certificates.
type Publication struct {
	// Published means that the root is published now.
	Published bool
	// For is how long this process has seen it published without a break. It is
	// measured with the monotonic clock: the system clock can jump.
	For time.Duration
	// Confirmed means that a person has distributed the root.
	Confirmed bool
}

// Sightings measures how long the root of a next CA has been published. The zero
// value is ready for use; it is not safe for concurrent use.
type Sightings struct {
	of    string
	since time.Time
}

// See records whether the root of next, which can be nil, is published now, and returns
// the known state. now has a monotonic clock reading, except in tests.
func (s *Sightings) See(next *x509.Certificate, published bool, now time.Time) Publication {
	if next == nil || !published {
		*s = Sightings{}
		return Publication{}
	}
	if of := pki.Fingerprint(next); of != s.of {
		*s = Sightings{of: of, since: now}
	}
	return Publication{Published: true, For: now.Sub(s.since)}
}

// Rules define when a CA is replaced.
type Rules struct {
	// RotateBefore is how long before the end of a CA the next one takes over.
	RotateBefore time.Duration
	// Propagation is how long the next CA's root is published before that CA
	// signs, so that all verifiers have the root by then.
	Propagation time.Duration
	// Request, if it differs from State.Done, causes the CA to be replaced now.
	Request string
	// KeepsKey is set if the root renews the CA, so that no other CA takes over: with the
	// same key and name, issued certificates stay valid, and clients already trust the
	// root.
	KeepsKey bool
	// Publishes means that the caller publishes all certificates of the CA before it
	// uses the CA: its successor need not wait once the CA has ended.
	Publishes bool
	// Distrusts, if not nil, reports whether a CA must not sign any more: others may
	// have its key.
	Distrusts func(*x509.Certificate) bool
}

// Step is what to do.
type Step int

// The steps.
const (
	// Wait: nothing to do.
	Wait Step = iota
	// Make the first CA.
	Make
	// Prepare the next CA.
	Prepare
	// Schedule sets when the next CA takes over: its root is published now.
	Schedule
	// Hold removes that time: the root of the next CA is no longer published.
	Hold
	// TakeOver makes the next CA the current one.
	TakeOver
	// Renew: the root issues another certificate for the current CA.
	Renew
	// Replace: another CA is made to replace one that must not sign.
	Replace
)

// The next CA signs when its root has been published for Rules.Propagation,
// according to the stored time, and, as far as that is longer than watchAtMost, when
// this process has seen the root for watchAtMost: the system clock may have jumped
// since the time was stored, or the root may have been away while no process looked.
const watchAtMost = 10 * time.Minute

// lookAgain is how long to wait for the root of the next CA to be published, and
// looksPerPropagation how many looks there are at least in the time for which it has to be.
const (
	lookAgain           = 5 * time.Second
	looksPerPropagation = 20
)

// Next returns what to do now. For Wait, at is until when; for Schedule, at is
// when the next CA is to take over.
func (r Rules) Next(s State, root Publication, now time.Time) (step Step, at time.Time) {
	switch {
	case s.Current == nil:
		return Make, now
	case r.distrusts(s.Current) && (s.Next == nil || r.distrusts(s.Next)):
		return Replace, now
	case r.distrusts(s.Current):
		return TakeOver, now
	case s.Next != nil && r.distrusts(s.Next):
		return Prepare, now
	case s.Next != nil:
		return r.nextTakesOver(s, root, now)
	}
	due := r.due(s.Current)
	if now.Before(due) && r.Request == s.Done {
		return Wait, due
	}
	if r.KeepsKey {
		return Renew, now
	}
	return Prepare, now
}

func (r Rules) distrusts(cert *x509.Certificate) bool { return r.Distrusts != nil && r.Distrusts(cert) }

// nextTakesOver is Next while there is a next CA. Nothing that is absent, damaged or
// not published makes it sign: not a missing time, and not the end of the current CA.
func (r Rules) nextTakesOver(s State, root Publication, now time.Time) (step Step, at time.Time) {
	scheduled := !s.TakesOver.IsZero() && s.TakesOver.Before(Never)
	ended := !now.Before(s.Current.NotAfter)
	switch {
	case root.Confirmed, ended && (root.Published || r.Publishes): // no certificate of the current CA is valid
		return TakeOver, now
	case !root.Published && scheduled:
		return Hold, now
	case !root.Published:
		return Wait, now.Add(min(lookAgain, r.Propagation/looksPerPropagation))
	case !scheduled:
		return Schedule, pki.Earlier(now.Add(r.Propagation), s.Current.NotAfter)
	}
	seen := now.Add(min(r.Propagation, watchAtMost) - root.For)
	if at := pki.Earlier(pki.Later(s.TakesOver, seen), s.Current.NotAfter); now.Before(at) {
		return Wait, at
	}
	return TakeOver, now
}

// due returns when to prepare the successor of ca. That is not before half of
// the CA's lifetime, whatever the rules are: they may be meant for longer
// lifetimes.
func (r Rules) due(ca *x509.Certificate) time.Time {
	due := ca.NotAfter.Add(-r.RotateBefore - r.Propagation)
	half := ca.NotBefore.Add(ca.NotAfter.Sub(ca.NotBefore) / 2)
	if due.Before(half) {
		return half
	}
	return due
}

// Renews reports whether a certificate from root would let ca last longer.
func Renews(root, ca *x509.Certificate) bool {
	return ca.CheckSignatureFrom(root) == nil && root.NotAfter.After(ca.NotAfter)
}

// IsRenewed reports whether later is a certificate of the same CA as ca, with
// its key and name, from after a renewal.
func IsRenewed(later, ca *x509.Certificate) bool {
	return later.NotBefore.After(ca.NotBefore) && pki.SameKey(later.PublicKey, ca.PublicKey) && bytes.Equal(later.RawSubject, ca.RawSubject)
}

// TrustUntil returns until when the root of a CA, which expires at end, has to
// be trusted if the CA stops signing now: until the last of its certificates
// has expired. lifetime is the longest lifetime of these.
func TrustUntil(end time.Time, lifetime time.Duration, now time.Time) time.Time {
	return pki.Earlier(now.Add(lifetime), end).UTC().Truncate(time.Second)
}
