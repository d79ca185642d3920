package profile

import (
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Times are the lengths of time of a profile, its defaults filled in.
type Times struct {
	// Maximum is the longest life of a certificate, of which Backdate lies before
	// its making.
	Maximum, Backdate time.Duration
	// RefreshPercent is after how much of its life a pod gets the next certificate,
	// give or take RefreshJitter. Both are percent.
	RefreshPercent, RefreshJitter int64
}

// TimesOf returns the times of a profile.
func TimesOf(declared v1alpha1.SignerProfile) Times {
	l, r := lifetimeOf(declared.Lifetime), refreshOf(declared.Refresh)
	return Times{l.maximum, l.backdate, r.percent, r.jitter}
}
