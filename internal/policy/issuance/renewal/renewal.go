// Package renewal says when a certificate is renewed.
package renewal

import (
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/pki"
)

// Time returns when the certificate of this validity is due for renewal by
// spec, in whole seconds. It is zero if certificates are not renewed by time.
//
// What counts is the life of the certificate as issued, which can be shorter
// than the one that was asked for: renewBefore, unless that is the whole life;
// else renewBeforePercentage, the share of the life that remains; else a third
// of the life. Windows are not supported: they have no influence, and Ignored
// says so.
func Time(spec *cmv1.CertificateSpec, v pki.Validity) time.Time {
	if isDisabled(spec) {
		return time.Time{}
	}
	return v.NotAfter.Add(-before(spec, v.NotAfter.Sub(v.NotBefore))).Truncate(time.Second)
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

// Ignored says what of spec has no influence on the time of renewal, for an
// Event; it is empty if everything has.
func Ignored(spec *cmv1.CertificateSpec) string {
	if spec.Renewal == nil || len(spec.Renewal.Windows) == 0 || isDisabled(spec) {
		return ""
	}
	return "spec.renewal.windows is not supported: certificates are renewed when they are due. Remove the windows, or set spec.renewal.policy to Disabled and renew by hand"
}
