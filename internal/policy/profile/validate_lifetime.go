package profile

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

const (
	// maxBackdate: the API accepts no certificate of a pod that begins 5m before
	// it is written, or earlier.
	maxPodBackdate = 5 * time.Minute
	maxBackdate    = 24 * time.Hour
	// maxLifetime: no CA lives longer.
	maxLifetime = 100 * 365 * 24 * time.Hour
	// maxClientLifetime is that of APIServerClientPod (KEP-4317).
	maxClientLifetime = 24 * time.Hour
)

func validateLifetime(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	l, pods := lifetimeOf(spec.Profile.Lifetime), serves(spec, v1alpha1.PodCertificateRequests)
	var errs field.ErrorList
	bad := func(name string, value time.Duration, detail string) {
		errs = append(errs, field.Invalid(path.Child(name), value.String(), detail))
	}
	switch {
	case pods && l.maximum < minPodLifetime:
		bad("maximum", l.maximum, "must be at least 1h, which is the shortest lifetime of a pod's certificate")
	case l.maximum < minLifetime:
		bad("maximum", l.maximum, "must be at least 10m")
	case l.maximum > maxLifetime:
		bad("maximum", l.maximum, "must be at most 876000h, a hundred years")
	case spec.SignerName == APIServerClientPod && l.maximum > maxClientLifetime:
		bad("maximum", l.maximum, "must be at most 24h for "+APIServerClientPod)
	case l.normal > l.maximum:
		bad("default", l.normal, "must be at most maximum, "+l.maximum.String())
	case l.normal < minLifetime:
		bad("default", l.normal, "must be at least 10m")
	}
	switch {
	case l.backdate < 0:
		bad("backdate", l.backdate, "must not be negative")
	case pods && l.backdate >= maxPodBackdate:
		bad("backdate", l.backdate, "must be less than 5m: API servers refuse pods' certificates that begin earlier")
	case l.backdate > maxBackdate:
		bad("backdate", l.backdate, "must be at most 24h")
	}
	return errs
}
