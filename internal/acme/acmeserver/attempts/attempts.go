// Package attempts lets the ACME server wait for the first attempt of a challenge, and for
// the certificate of an order, if the controllers that do this work in the same process:
// what the client asks for and what came of it are then stored by one write, and most
// clients hear of it at once. Whatever takes longer goes the usual way, by the order that
// is stored.
package attempts

import (
	"context"
	"sync"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// Desk connects the server, which asks for attempts, with the controller, which makes
// them. A nil Desk makes none. It is safe for concurrent use.
type Desk struct {
	mu    sync.Mutex
	try   Try
	issue Issue
}

// Try begins an attempt of a challenge that is processing in an order. It returns nil if
// it cannot, or if an attempt of the challenge is running.
type Try func(o *v1alpha1.AcmeOrder, at acmeorder.Position) *Attempt

// Issue creates the request of an order that is processing and not stored yet. It returns
// the status with which the order has to be stored, and what to call then; nil if the order
// has to be stored as it is.
type Issue func(ctx context.Context, o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, func())

// Offer lets try make the attempts until the caller calls end.
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

// Begin begins an attempt. If it returns nil, the order has to be stored without an
// outcome.
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

// OfferIssue has issue create the requests of orders until the caller calls end.
func (d *Desk) OfferIssue(issue Issue) (end func()) {
	if d == nil {
		return func() {}
	}
	d.setIssue(issue)
	return func() { d.setIssue(nil) }
}

func (d *Desk) setIssue(issue Issue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.issue = issue
}

// Issue calls what was offered; without an offer it returns nil.
func (d *Desk) Issue(ctx context.Context, o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, func()) {
	if d == nil {
		return nil, nil
	}
	d.mu.Lock()
	issue := d.issue
	d.mu.Unlock()
	if issue == nil {
		return nil, nil
	}
	return issue(ctx, o)
}

// Outcome is the outcome of an attempt.
type Outcome struct {
	// Record returns the status of an order with the outcome; nil if the order has
	// changed so that it does not count.
	Record func(*v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus
	// Stored must be called once: with the order that is stored with the outcome, or
	// with nil if the outcome is lost.
	Stored func(*v1alpha1.AcmeOrder)
}

// Attempt is a running or ended attempt. A nil Attempt has no outcome.
type Attempt struct {
	done chan struct{} // closed when outcome is set

	mu      sync.Mutex
	outcome *Outcome
	left    bool // nobody waits
}

// NewAttempt returns an attempt that has begun.
func NewAttempt() *Attempt { return &Attempt{done: make(chan struct{})} }

// End is called when the attempt has ended. It reports whether a caller of Wait takes the
// outcome and stores it.
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

// Wait returns the outcome of the attempt; nil if the attempt has not ended after period:
// the controller then stores the outcome.
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
