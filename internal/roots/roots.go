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

// Roots returns the root certificates of now, which must not be modified. It
// costs little and is safe for concurrent use.
type Roots func() []*x509.Certificate

// Static is for roots that do not change.
func Static(certs ...*x509.Certificate) Roots {
	return func() []*x509.Certificate { return certs }
}

// Joined returns the roots of all. If one of them knows of none, there is no
// saying what the whole is: then it is none.
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

// Overlapping returns the roots of now and, for a while, those of before: what
// was issued under them is in use still, and not everybody learns of a change
// at once. It knows of what was there while it was asked.
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

// Watch calls changed, one at a time, whenever the roots have changed since it
// was called, until ctx ends. It asks for them that often.
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
