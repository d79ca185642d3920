package outcome

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/issuing/signer/metrics"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// Report reports the outcome of one request to operators and requesters: in the
// log, by metrics and by an Event.
type Report struct {
	// Object is the request, whose Events recorder makes; nil means no Events.
	Object   runtime.Object
	Recorder events.EventRecorder
	// OnlyWarnings means that no Event tells of a certificate as such: the Certificate that
	// has made the request has one.
	OnlyWarnings bool
	// Signer is the name of the signer in the log and in metrics.
	Signer string
	// Facts identify the request in the log: alternating keys and values.
	Facts []any
	// Metrics count the outcomes; nil means no metrics.
	Metrics *metrics.Metrics
	// Label returns the metric label for a reason; nil means the reason itself.
	Label func(reason string) string
	// Answered, if not nil, is called with each final answer that is stored.
	Answered func(issued bool)
	// Start is when the work on the request began, by Clock; without a Clock,
	// Metrics must be nil.
	Start time.Time
	Clock clock.PassiveClock
	// Queued is how long the request waited until the work began; nil means
	// that this is not known.
	Queued *time.Duration
}

// now returns the time by Clock; without a Clock, the zero time.
func (r Report) now() time.Time {
	if r.Clock == nil {
		return time.Time{}
	}
	return r.Clock.Now()
}

// send reports an outcome that was reached at the time signed. stored is why it
// could not be stored, or nil. Each certificate that a CA has signed is logged
// with its serial number, even if it is discarded: an audit of the CA's key
// needs all of them.
func (r Report) send(ctx context.Context, o Outcome, signed time.Time, stored error) {
	if stored == nil && o.Final() && r.Answered != nil {
		r.Answered(o.Issued != nil)
	}
	switch {
	case o.Issued != nil && stored != nil:
		r.discarded(ctx, o, stored)
	case o.Issued != nil:
		r.issued(ctx, o, signed)
	case stored == nil && o.Refused():
		r.refused(ctx, o)
	case stored == nil:
		r.Delayed(ctx, o)
	}
	if stored == nil && r.Metrics != nil && r.Queued != nil {
		r.Metrics.QueueWait.WithLabelValues(r.Signer).Observe(r.Queued.Seconds())
	}
}

func (r Report) issued(ctx context.Context, o Outcome, signed time.Time) {
	log.FromContext(ctx).Info("Issued certificate", r.facts(o)...)
	if m := r.Metrics; m != nil {
		m.Issued.WithLabelValues(r.Signer).Inc()
		m.Signature.WithLabelValues(r.Signer).Observe(signed.Sub(r.Start).Seconds())
		m.Duration.WithLabelValues(r.Signer).Observe(r.Clock.Now().Sub(r.Start).Seconds())
		if o.Issued.ShortenedBy > 0 {
			m.Shortened.WithLabelValues(r.Signer).Inc()
		}
	}
	for _, warning := range o.Issued.Warnings {
		r.event(corev1.EventTypeWarning, warning.Reason, warning.Message)
	}
	if !r.OnlyWarnings {
		r.event(corev1.EventTypeNormal, o.Reason, cmp.Or(o.Note, o.Message))
	}
}

func (r Report) discarded(ctx context.Context, o Outcome, why error) {
	facts := r.facts(o)
	if errors.Is(why, ErrSuperseded) { // otherwise the queue logs why
		facts = append(facts, "reason", why.Error())
	}
	log.FromContext(ctx).Info("Discarded certificate that was signed but not stored", facts...)
}

func (r Report) refused(ctx context.Context, o Outcome) {
	log.FromContext(ctx).Info("Refused request", append(r.facts(o), "reason", o.Reason, "message", eventtext.Line(o.Message))...)
	if o.Reason == "" {
		return
	}
	if r.Metrics != nil {
		r.Metrics.Refused.WithLabelValues(r.Signer, r.label(o)).Inc()
	}
	r.event(corev1.EventTypeWarning, o.Reason, cmp.Or(o.Note, o.Message))
}

// Delayed reports a request that waits without showing it in its status.
func (r Report) Delayed(ctx context.Context, o Outcome) {
	switch facts := append(r.facts(o), "reason", o.Reason); {
	case o.Retry == nil:
		log.FromContext(ctx).Info("Request waits", append(facts, "message", eventtext.Line(o.Message))...)
	case o.After > 0: // otherwise the queue logs it
		log.FromContext(ctx).Info("Delayed request", append(facts, "retryAfter", o.After, "why", eventtext.Line(o.Retry.Error()))...)
	}
	if r.Metrics != nil {
		r.Metrics.Delayed.WithLabelValues(r.Signer, r.label(o)).Inc()
	}
	kind := corev1.EventTypeWarning
	if o.Routine {
		kind = corev1.EventTypeNormal
	}
	r.event(kind, o.Reason, cmp.Or(o.Note, o.Message))
}

// Await informs the requester, by an Event, that the request needs an approval.
func (r Report) Await(reason, text string) { r.event(corev1.EventTypeNormal, reason, text) }

func (r Report) label(o Outcome) string {
	if r.Label != nil {
		return r.Label(o.Reason)
	}
	return o.Reason
}

func (r Report) event(kind, reason, text string) {
	if r.Recorder != nil {
		r.Recorder.Eventf(r.Object, nil, kind, reason, "Sign", "%s", eventtext.Fit(text))
	}
}

// facts returns what identifies a request, and its certificate if it has one,
// in the log.
func (r Report) facts(o Outcome) []any {
	facts := slices.Clone(r.Facts)
	if o.Issued != nil {
		facts = append(facts, pki.LogFacts(o.Issued.Certificate)...)
		if at := o.Issued.RefreshAt; !at.IsZero() {
			facts = append(facts, "beginRefreshAt", at)
		}
	}
	return facts
}
