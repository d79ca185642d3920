package profile

import (
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Times are the durations of a profile, with its defaults.
type Times struct {
	// Maximum is the longest lifetime of a certificate. Backdate is the part of
	// the lifetime before the certificate is signed.
	Maximum, Backdate time.Duration
	// RefreshPercent is the part of the lifetime after which a pod gets the
	// next certificate, plus or minus RefreshJitter. Both are percentages.
	RefreshPercent, RefreshJitter int64
}

// TimesOf returns the times of a profile.
func TimesOf(declared v1alpha1.SignerProfile) Times {
	l, r := lifetimeOf(declared.Lifetime), refreshOf(declared.Refresh)
	return Times{l.maximum, l.backdate, r.percent, r.jitter}
}
