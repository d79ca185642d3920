// Package roots follows root certificates that change.
package roots

import (
	"context"
	"crypto/x509"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/policy/rollover"
)

// Roots returns the current root certificates, which must not be modified. It
// is cheap and safe for concurrent use.
type Roots func() []*x509.Certificate

// Static is for roots that do not change.
func Static(certs ...*x509.Certificate) Roots {
	return func() []*x509.Certificate { return certs }
}

// Joined returns the roots of all. If one of them has none, the whole is
// unknown, and Joined returns none.
func Joined(all ...Roots) Roots {
	return func() []*x509.Certificate {
		var joined []*x509.Certificate
		for _, roots := range all {
			certs := roots()
			if len(certs) == 0 {
				return nil
			}
			joined = append(joined, certs...)
		}
		return joined
	}
}

// Overlapping contains the current roots and, for a while, the former ones: certificates
// that were issued under those are still in use, and not every client learns of a change at
// once. It knows roots that were current while it was asked, and those that it was told to
// remember. It is safe for concurrent use.
type Overlapping struct {
	// Today are the current roots.
	Today Roots
	// Overlap is how long former roots are kept beside them.
	Overlap time.Duration
	Clock   clock.PassiveClock

	mu      sync.Mutex // guards anchors
	anchors []rollover.Anchor
}

// Roots returns all roots, the current ones first.
func (o *Overlapping) Roots() []*x509.Certificate { return rollover.Certificates(o.Anchors()) }

// Anchors returns all roots, with the times at which the former ones go.
func (o *Overlapping) Anchors() []rollover.Anchor {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.anchors = rollover.Next(o.anchors, o.Today(), o.Clock.Now(), o.Overlap)
	return slices.Clone(o.anchors)
}

// Remember adds roots of an earlier process. Those without a time, or with one after the
// overlap, are kept for the overlap from now on.
func (o *Overlapping) Remember(anchors []rollover.Anchor) {
	o.mu.Lock()
	defer o.mu.Unlock()
	latest := o.Clock.Now().Add(o.Overlap)
	for _, anchor := range anchors {
		if anchor.Until.IsZero() || anchor.Until.After(latest) {
			anchor.Until = latest
		}
		o.anchors = append(o.anchors, anchor)
	}
}

// Watch calls changed, one call at a time, whenever the roots have changed
// since Watch was called, until ctx ends. It reads the roots at this interval.
func Watch(ctx context.Context, roots Roots, every time.Duration, changed func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for known := roots(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := roots(); !slices.EqualFunc(known, now, (*x509.Certificate).Equal) {
			known = now
			changed()
		}
	}
}
