// Package renewal decides when a certificate is renewed.
package renewal

import (
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// Time returns when a certificate with this validity is due for renewal by
// spec, in whole seconds. It is zero if certificates are not renewed by time.
//
// It depends on the lifetime of the certificate as issued, which can be shorter than
// requested. The certificate is renewed before its end by renewBefore, unless that is the
// whole lifetime; otherwise by renewBeforePercentage, the share of the lifetime that
// remains; otherwise by a third of the lifetime. If there are windows, it is the first
// time from then on at which one is open; a window that is over by now does not count.
// Without such a time, the certificate is renewed nevertheless, and Outside reports it.
func Time(spec *cmv1.CertificateSpec, v pki.Validity, now time.Time) time.Time {
	if IsDisabled(spec) {
		return time.Time{}
	}
	return inWindow(spec, v, dueTime(spec, v), now)
}

// inWindow returns the first time from due on at which a window is open; due if
// there is none.
func inWindow(spec *cmv1.CertificateSpec, v pki.Validity, due, now time.Time) time.Time {
	at, err := open(spec, v, due, now)
	if err != nil || !at.After(pki.Later(due, now)) {
		return due
	}
	return at
}

func dueTime(spec *cmv1.CertificateSpec, v pki.Validity) time.Time {
	return v.NotAfter.Add(-renewBefore(spec, v.NotAfter.Sub(v.NotBefore))).Truncate(time.Second)
}

// margin is how long before the end of a certificate a window has to open:
// issuing another one takes time.
const margin = 5 * time.Minute

// open returns the first time, not before now and not before the certificate is
// due, at which a window is open. Without windows it is always open.
func open(spec *cmv1.CertificateSpec, v pki.Validity, due, now time.Time) (time.Time, error) {
	from, until := pki.Later(due, now), v.NotAfter.Add(-margin)
	if spec.Renewal == nil || len(spec.Renewal.Windows) == 0 {
		return from, nil
	}
	var first time.Time
	for i, w := range spec.Renewal.Windows {
		window, err := certmanager.ParseWindow(w)
		if err != nil {
			return time.Time{}, fmt.Errorf("spec.renewal.windows[%d]: %w", i, err)
		}
		if at, ok := window.Next(from, until); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return time.Time{}, fmt.Errorf("none of spec.renewal.windows is open between %s and %s", from.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	}
	return first, nil
}

// IsDisabled reports whether certificates are not renewed by time.
func IsDisabled(spec *cmv1.CertificateSpec) bool {
	return spec.Renewal != nil && spec.Renewal.Policy == cmv1.CertificateRenewalPolicyDisabled
}

// renewBefore returns how long before its expiry a certificate is renewed.
func renewBefore(spec *cmv1.CertificateSpec, life time.Duration) time.Duration {
	if d, ok := ownRenewBefore(spec, life); ok {
		return d
	}
	return life / 3
}

// ownRenewBefore returns the renewBefore that the Certificate itself sets; ok is false if
// it sets none.
func ownRenewBefore(spec *cmv1.CertificateSpec, life time.Duration) (d time.Duration, ok bool) {
	if spec.RenewBefore != nil {
		if d := spec.RenewBefore.Duration; 0 < d && d < life {
			return d, true
		}
	}
	if spec.RenewBeforePercentage != nil {
		if share := *spec.RenewBeforePercentage; 0 < share && share < 100 {
			return percent(life, share), true
		}
	}
	return 0, false
}

// percent does not overflow: a century is 3e18 nanoseconds, a hundred of them
// are more than an int64 holds.
func percent(life time.Duration, share int32) time.Duration {
	whole, rest := life/100, life%100
	return whole*time.Duration(share) + rest*time.Duration(share)/100
}

// Outside returns why a certificate that was due at a time is renewed outside of
// its windows: they cannot be parsed, or none opens before its end. It is empty
// otherwise. A zero time means that it was due by spec.
func Outside(spec *cmv1.CertificateSpec, v pki.Validity, due, now time.Time) string {
	if IsDisabled(spec) {
		return ""
	}
	if due.IsZero() {
		due = dueTime(spec, v)
	}
	if _, err := open(spec, v, due, now); err != nil {
		return err.Error()
	}
	return ""
}
