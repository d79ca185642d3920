// Package attempts lets the ACME server wait for the first attempt of a challenge, if
// the controller that tries challenges works in the same process: what the client asks
// for and what came of it are then stored by one write, and most clients hear of the
// proof at once. Whatever takes longer goes the usual way, by the order that is stored.
package attempts

import (
	"context"
	"sync"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// Desk is where the server asks for attempts, and the controller offers them. A Desk
// that is nil offers none. It is safe for concurrent use.
type Desk struct {
	mu  sync.Mutex
	try Try
}

// Try begins an attempt of a challenge that an order has as processing. It returns nil
// if it cannot, or if somebody tries the challenge already.
type Try func(o *v1alpha1.AcmeOrder, at acmeorder.Position) *Attempt

// Offer has attempts be made by try, until the caller calls end.
func (d *Desk) Offer(try Try) (end func()) {
	if d == nil {
		return func() {}
	}
	d.set(try)
	return func() { d.set(nil) }
}

func (d *Desk) set(try Try) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.try = try
}

// Begin begins an attempt; nil means that the order has to be stored without one.
func (d *Desk) Begin(o *v1alpha1.AcmeOrder, at acmeorder.Position) *Attempt {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.try == nil {
		return nil
	}
	return d.try(o, at)
}

// Outcome is what came of an attempt.
type Outcome struct {
	// Record returns the status of an order with the outcome; nil if the order has
	// changed so that it does not count.
	Record func(*v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus
	// Stored must be called once: with the order that is stored with the outcome, or
	// with nil if the outcome is lost.
	Stored func(*v1alpha1.AcmeOrder)
}

// Attempt is one that has begun. A nil Attempt has no outcome.
type Attempt struct {
	done chan struct{} // closed when outcome is set

	mu      sync.Mutex
	outcome *Outcome
	left    bool // nobody waits
}

// NewAttempt returns an attempt that has begun.
func NewAttempt() *Attempt { return &Attempt{done: make(chan struct{})} }

// End is called when the attempt has ended. It reports whether somebody waits, who then
// stores the outcome.
func (a *Attempt) End(outcome Outcome) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left {
		return false
	}
	a.outcome = &outcome
	close(a.done)
	return true
}

// Wait returns the outcome of the attempt; nil if there is none after a period: the
// controller stores it then.
func (a *Attempt) Wait(ctx context.Context, period time.Duration) *Outcome {
	if a == nil {
		return nil
	}
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = true
	return a.outcome
}
