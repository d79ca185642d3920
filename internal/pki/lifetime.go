package pki

import (
	"fmt"
	"time"
)

// Lifetime is a signer's rule for the lifetime of certificates.
type Lifetime struct {
	// Max is the lifetime for a request without a duration, and the upper limit
	// for other requests.
	Max time.Duration
	// Min is the lower limit. Max takes precedence over Min.
	Min time.Duration
	// Backdate moves the start into the past, for verifiers whose clocks are
	// slower than the CA's.
	Backdate time.Duration
	// Short is the limit below which a lifetime is not shortened by the
	// backdate: below it the whole duration begins now and the backdate is
	// added; from it on the backdate is part of the duration.
	Short time.Duration
}

// Validity is the validity period of a certificate. Both ends are included (RFC
// 5280 section 4.1.2.5).
type Validity struct {
	NotBefore, NotAfter time.Time
}

// Duration returns the lifetime for a requested duration; nil means that none
// was requested.
func (l Lifetime) Duration(requested *time.Duration) time.Duration {
	switch {
	case requested == nil, *requested > l.Max:
		return l.Max
	case *requested < l.Min:
		return l.Min
	default:
		return *requested
	}
}

// Limited returns the lifetime with a shorter maximum, if max is not nil and
// shorter.
func (l Lifetime) Limited(max *time.Duration) Lifetime {
	if max != nil && *max < l.Max {
		l.Max, l.Min = *max, min(l.Min, *max)
	}
	return l
}

// Unbounded returns the validity of a certificate issued now by a CA that never
// expires.
func (l Lifetime) Unbounded(requested *time.Duration, now time.Time) Validity {
	duration := l.Duration(requested)
	unbounded := Validity{NotBefore: now.Add(-l.Backdate), NotAfter: now.Add(duration)}
	if duration >= l.Short {
		unbounded.NotAfter = unbounded.NotAfter.Add(-l.Backdate)
	}
	return unbounded.wholeSeconds()
}

// Validity returns the validity of a certificate issued now by a CA that is
// valid for ca. It lies within the CA's own validity: a certificate that
// outlives its CA fails verification anyway, and one that is older than its CA
// is misleading to its readers. Its errors are *ExpiredError and
// *NotYetValidError.
func (l Lifetime) Validity(requested *time.Duration, ca Validity, now time.Time) (Validity, error) {
	if err := ca.permits(now.Add(-l.Backdate), now); err != nil {
		return Validity{}, err
	}
	unbounded := l.Unbounded(requested, now)
	return Validity{NotBefore: Later(unbounded.NotBefore, ca.NotBefore), NotAfter: Earlier(unbounded.NotAfter, ca.NotAfter)}, nil
}

// Within returns the part of v that lies within the validity of a CA that issues the
// certificate now. It returns the same errors as Lifetime.Validity.
func (v Validity) Within(ca Validity, now time.Time) (Validity, error) {
	if err := ca.permits(v.NotBefore, now); err != nil {
		return Validity{}, err
	}
	return Validity{NotBefore: Later(v.NotBefore, ca.NotBefore), NotAfter: Earlier(v.NotAfter, ca.NotAfter)}, nil
}

// permits reports whether a CA that is valid for v can issue a certificate now
// that begins at start.
func (v Validity) permits(start, now time.Time) error {
	switch {
	case !start.Before(v.NotAfter):
		return &ExpiredError{NotAfter: v.NotAfter}
	case !now.Before(v.NotAfter):
		return &ExpiredError{NotAfter: v.NotAfter, withinBackdate: true}
	case now.Before(v.NotBefore):
		return &NotYetValidError{NotBefore: v.NotBefore}
	}
	return nil
}

// wholeSeconds converts v to times that a certificate can express: RFC 5280 section 4.1.2.5
// permits no fractions of seconds and only UTC.
func (v Validity) wholeSeconds() Validity {
	return Validity{
		NotBefore: v.NotBefore.UTC().Truncate(time.Second),
		NotAfter:  v.NotAfter.UTC().Truncate(time.Second),
	}
}

// ExpiredError reports that a CA has expired and can issue nothing. A new CA
// certificate fixes that, so it is not a verdict on the request.
type ExpiredError struct {
	NotAfter time.Time
	// withinBackdate: the CA ended so recently that a backdated certificate
	// would still begin within its validity.
	withinBackdate bool
}

func (e *ExpiredError) Error() string {
	if e.withinBackdate {
		return fmt.Sprintf("refusing to sign a certificate that expired in the past: NotAfter=%v", e.NotAfter)
	}
	return fmt.Sprintf("the signer has expired: NotAfter=%v", e.NotAfter)
}

// NotYetValidError reports that a CA can issue nothing yet: verifiers would not
// accept the certificate before the CA's own validity begins.
type NotYetValidError struct {
	NotBefore time.Time
}

func (e *NotYetValidError) Error() string {
	return fmt.Sprintf("the signer is not yet valid: NotBefore=%v", e.NotBefore)
}
