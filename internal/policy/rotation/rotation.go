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
	Next      *x509.Certificate
	TakesOver time.Time
	// Done is the last rotation request that was carried out.
	Done string
}

// Rules define when a CA is replaced.
type Rules struct {
	// RotateBefore is how long before the end of a CA the next one takes over.
	RotateBefore time.Duration
	// Propagation is how long the next CA's root is published before that, so
	// that all verifiers have it by then.
	Propagation time.Duration
	// Request, if it differs from State.Done, causes the CA to be replaced now.
	Request string
	// KeepsKey has a CA renewed by its root, in place of another CA that takes
	// over: with its key and name, what it has issued stays valid, and clients
	// trust the root already.
	KeepsKey bool
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
	// TakeOver makes the next CA the current one.
	TakeOver
	// Renew has the root issue another certificate for the current CA.
	Renew
)

// Next returns what to do now. For Wait, at is until when; for Prepare, at is
// when the next CA is to take over.
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
	if now.Before(due) && r.Request == s.Done {
		return Wait, due
	}
	if r.KeepsKey {
		return Renew, now
	}
	return Prepare, pki.Earlier(now.Add(r.Propagation), s.Current.NotAfter)
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
