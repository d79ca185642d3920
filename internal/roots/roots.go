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

// Overlapping returns the current roots and, for a while, the former ones:
// certificates that were issued under those are still in use, and not every
// client learns of a change at once. It only knows roots that were current
// while it was called.
func Overlapping(today Roots, overlap time.Duration, clock clock.PassiveClock) Roots {
	var mu sync.Mutex // guards anchors
	var anchors []rollover.Anchor
	return func() []*x509.Certificate {
		mu.Lock()
		defer mu.Unlock()
		anchors = rollover.Next(anchors, today(), clock.Now(), overlap)
		return rollover.Certificates(anchors)
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
