// Package rotation decides when a CA that certplane has made is replaced.
package rotation

import (
	"crypto/x509"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// State is what Rules look at of a CA.
type State struct {
	// Current signs; nil is a CA that is not made yet.
	Current *x509.Certificate
	// Next is to sign from TakesOver on and is published already; nil: there is
	// none.
	Next      *x509.Certificate
	TakesOver time.Time
	// Done is the last wish that was carried out.
	Done string
}

// Rules say when a CA is replaced.
type Rules struct {
	// RotateBefore is how long before the end of a CA the next one takes over.
	RotateBefore time.Duration
	// Propagation is for how long the next CA's root is published before that,
	// so that all who verify certificates know it by then.
	Propagation time.Duration
	// Wish, if it is another one than the last, has the CA replaced now.
	Wish string
}

// Step is what to do.
type Step int

// The steps.
const (
	// Wait: there is nothing to do.
	Wait Step = iota
	// Make the first CA.
	Make
	// Prepare the next CA.
	Prepare
	// TakeOver makes the next CA the current one.
	TakeOver
)

// Next returns what to do now, and if that is to wait, until when. For Prepare
// it is when the next CA is to take over.
func (r Rules) Next(s State, now time.Time) (step Step, at time.Time) {
	switch {
	case s.Current == nil:
		return Make, now
	case s.Next != nil:
		if at := pki.Earlier(s.TakesOver, s.Current.NotAfter); now.Before(at) {
			return Wait, at
		}
		return TakeOver, now
	}
	due := r.due(s.Current)
	if now.Before(due) && r.Wish == s.Done {
		return Wait, due
	}
	return Prepare, pki.Earlier(now.Add(r.Propagation), s.Current.NotAfter)
}

// due is when to prepare the successor of ca. A CA does not have one before
// half of its life, whatever the rules say: they may be for longer lives.
func (r Rules) due(ca *x509.Certificate) time.Time {
	due := ca.NotAfter.Add(-r.RotateBefore - r.Propagation)
	half := ca.NotBefore.Add(ca.NotAfter.Sub(ca.NotBefore) / 2)
	if due.Before(half) {
		return half
	}
	return due
}

// TrustUntil is until when the root of a CA, which ends at end, has to be
// trusted if the CA signs no more from now on: until the last of its
// certificates has ended. lifetime is the longest life of these.
func TrustUntil(end time.Time, lifetime time.Duration, now time.Time) time.Time {
	return pki.Earlier(now.Add(lifetime), end).UTC().Truncate(time.Second)
}
