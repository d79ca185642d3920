// Package renewal says when a certificate is renewed.
package renewal

import (
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// Time returns when the certificate of this validity is due for renewal by
// spec, in whole seconds. It is zero if certificates are not renewed by time.
//
// What counts is the life of the certificate as issued, which can be shorter
// than the one that was asked for: renewBefore, unless that is the whole life;
// else renewBeforePercentage, the share of the life that remains; else a third
// of the life. If there are windows, it is the first time from then on at which
// one is open: one that has been missed by now does not count. Outside says when
// there is none, and the certificate is renewed all the same.
func Time(spec *cmv1.CertificateSpec, v pki.Validity, now time.Time) time.Time {
	if isDisabled(spec) {
		return time.Time{}
	}
	due := dueTime(spec, v)
	at, err := open(spec, v, now)
	if err != nil || !at.After(pki.Later(due, now)) {
		return due
	}
	return at
}

func dueTime(spec *cmv1.CertificateSpec, v pki.Validity) time.Time {
	return v.NotAfter.Add(-before(spec, v.NotAfter.Sub(v.NotBefore))).Truncate(time.Second)
}

// margin is how long before the end of a certificate a window has to open: it
// takes time to issue another one.
const margin = 5 * time.Minute

// open returns when a window is open for the first time since the certificate
// is due, and from now on. Without windows it is open always.
func open(spec *cmv1.CertificateSpec, v pki.Validity, now time.Time) (time.Time, error) {
	from, until := pki.Later(dueTime(spec, v), now), v.NotAfter.Add(-margin)
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

func isDisabled(spec *cmv1.CertificateSpec) bool {
	return spec.Renewal != nil && spec.Renewal.Policy == cmv1.CertificateRenewalPolicyDisabled
}

// before returns how long before its end a certificate is renewed that lives
// for life.
func before(spec *cmv1.CertificateSpec, life time.Duration) time.Duration {
	if spec.RenewBefore != nil {
		if d := spec.RenewBefore.Duration; 0 < d && d < life {
			return d
		}
	}
	if spec.RenewBeforePercentage != nil {
		if share := *spec.RenewBeforePercentage; 0 < share && share < 100 {
			return percent(life, share)
		}
	}
	return life / 3
}

// percent does not overflow: a century is 3e18 nanoseconds, a hundred of them
// are more than an int64 holds.
func percent(life time.Duration, share int32) time.Duration {
	whole, rest := life/100, life%100
	return whole*time.Duration(share) + rest*time.Duration(share)/100
}

// Outside says why a certificate is renewed at its time although there are
// windows and none is open: they cannot be read, or none opens before its end.
// It is empty if that is not so.
func Outside(spec *cmv1.CertificateSpec, v pki.Validity, now time.Time) string {
	if isDisabled(spec) {
		return ""
	}
	if _, err := open(spec, v, now); err != nil {
		return err.Error()
	}
	return ""
}
