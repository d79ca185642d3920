package renewal

import (
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/backoff"
)

// Window is the time in which a CA suggests to renew a certificate (RFC 9773
// section 4.2), in whole seconds.
type Window struct{ Start, End time.Time }

// NewWindow returns a window without fractions of seconds, the form in which it is stored.
func NewWindow(start, end time.Time) Window {
	return Window{start.Truncate(time.Second), end.Truncate(time.Second)}
}

// Equal reports whether two windows are the same.
func (w Window) Equal(other Window) bool {
	return w.Start.Equal(other.Start) && w.End.Equal(other.End)
}

// maxPast is how long before the beginning of a certificate its window may have
// ended: CAs that want a certificate to be renewed at once suggest the last hour.
const maxPast = 24 * time.Hour

// IsPossible reports whether the window can belong to a certificate: it ends after it
// starts, and not long before the certificate began. Without this check, a CA that sends
// wrong windows would have its certificates renewed again and again.
func (w Window) IsPossible(v pki.Validity) bool {
	return !w.End.Before(w.Start) && w.End.After(v.NotBefore.Add(-maxPast))
}

// Choose returns a uniformly random time of the window, in whole seconds (RFC
// 9773 section 4.2). It is never after Latest, and can be in the past: the
// certificate is then due. It must be called once for each window.
func (w Window) Choose(spec *cmv1.CertificateSpec, v pki.Validity, random backoff.Jitter) time.Time {
	end := Latest(spec, v)
	if w.End.Before(end) {
		end = w.End
	}
	length := end.Sub(w.Start)
	switch {
	case length < 0:
		return end
	case length < time.Second:
		return w.Start
	}
	return w.Start.Add(random(length).Truncate(time.Second))
}

// Has reports whether Choose can have returned a time.
func (w Window) Has(at time.Time, spec *cmv1.CertificateSpec, v pki.Validity) bool {
	latest := Latest(spec, v)
	if w.Start.After(latest) {
		return at.Equal(latest)
	}
	return !at.Before(w.Start) && !at.After(w.End) && !at.After(latest)
}

// Latest returns the latest time at which a certificate is renewed by a suggestion, in
// whole seconds: when it is due by its spec, if that sets a time, otherwise shortly before
// its end.
func Latest(spec *cmv1.CertificateSpec, v pki.Validity) time.Time {
	life := v.NotAfter.Sub(v.NotBefore)
	if _, ok := ownRenewBefore(spec, life); ok {
		return dueTime(spec, v)
	}
	return v.NotAfter.Add(-min(margin, life/10)).Truncate(time.Second)
}

// Suggested returns when a certificate is renewed for which a time was chosen: at
// that time, or when the next window of spec opens. It is zero if certificates
// are not renewed by time.
func Suggested(spec *cmv1.CertificateSpec, v pki.Validity, chosen, now time.Time) time.Time {
	if IsDisabled(spec) {
		return time.Time{}
	}
	return inWindow(spec, v, SuggestedDue(spec, v, chosen), now)
}

// SuggestedDue returns when a certificate is due for which a time was chosen,
// whether a window of spec is open or not.
func SuggestedDue(spec *cmv1.CertificateSpec, v pki.Validity, chosen time.Time) time.Time {
	if latest := Latest(spec, v); chosen.After(latest) {
		return latest
	}
	return chosen
}

// How often a CA is asked for the window of a certificate (RFC 9773 section 4.3).
const (
	// askEvery is the wait if the CA does not set one, and the longest wait after errors.
	askEvery = 6 * time.Hour
	// minAsk and maxAsk limit the wait that the CA sets.
	minAsk = time.Minute
	maxAsk = 24 * time.Hour
)

// NextAsk returns how long to wait after an answer of a CA. after is the wait that the CA
// asks for, or 0. Up to a tenth is added, so that queries about certificates that were
// issued together are spread.
func NextAsk(after time.Duration, random backoff.Jitter) time.Duration {
	wait := askEvery
	if after > 0 {
		wait = min(max(after, minAsk), maxAsk)
	}
	return wait + random(wait/10)
}

// NextAskAfterError returns how long to wait after an error. last is the wait
// after the error before it, or 0; after is as for NextAsk. Waits double while
// errors are temporary. final means that the last window no longer counts: the
// error is not temporary, or there were too many.
func NextAskAfterError(last, after time.Duration, temporary bool, random backoff.Jitter) (wait time.Duration, final bool) {
	wait = askEvery
	if temporary {
		wait = min(max(2*last, minAsk), askEvery)
	}
	final = wait == askEvery
	if after > 0 {
		wait = max(wait, min(after, maxAsk))
	}
	return wait + random(wait/10), final
}

// maxWait is more than any wait that this package returns.
const maxWait = 2 * maxAsk

// IsDue reports whether a CA has to be asked at a time: at next, unless that is
// zero or further away than this program ever waits, as after a clock was wrong.
func IsDue(next, now time.Time) bool {
	return next.IsZero() || !now.Before(next) || next.Sub(now) > maxWait
}
