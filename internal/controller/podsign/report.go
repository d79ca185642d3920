package podsign

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer/declared"
)

// action is what events say the signer was doing.
const action = "Sign"

// times are those of the work on one request.
type times struct{ start, signed, end time.Time }

// answered tells operators what has become of a request. Every signature that
// the CA's key has made is logged with its serial number, also if its
// certificate reached nobody: whoever audits the key wants to know.
func (r *reconciler) answered(ctx context.Context, req *request, signer *declared.Signer, o outcome, stored error, t times) {
	switch {
	case o.issued != nil && stored != nil:
		r.discarded(ctx, req, o, stored)
	case o.issued != nil:
		signer.Counts.Issued(t.end)
		r.issued(ctx, req, o, t)
	case stored == nil:
		signer.Counts.Refused()
		r.refused(ctx, req, o)
	}
}

func (r *reconciler) issued(ctx context.Context, req *request, o outcome, t times) {
	name, cert := req.Spec.SignerName, o.issued.Certificate
	log.FromContext(ctx).Info("Issued certificate", facts(req, o)...)
	r.metrics.Issued.WithLabelValues(name).Inc()
	r.metrics.QueueWait.WithLabelValues(name).Observe(max(0, t.start.Sub(req.CreationTimestamp.Time)).Seconds())
	r.metrics.Signature.WithLabelValues(name).Observe(t.signed.Sub(t.start).Seconds())
	r.metrics.Duration.WithLabelValues(name).Observe(t.end.Sub(t.start).Seconds())
	note := fmt.Sprintf("Issued the certificate with serial number %x and SHA-256 fingerprint %s", cert.SerialNumber, pki.Fingerprint(cert))
	if o.issued.Cut > 0 {
		r.metrics.Shortened.WithLabelValues(name).Inc()
		note += fmt.Sprintf(", which ends on %s with its CA, %v earlier than it was to", cert.NotAfter.Format(time.RFC3339), o.issued.Cut)
	}
	r.event(req, corev1.EventTypeNormal, reasonIssued, note)
}

func (r *reconciler) discarded(ctx context.Context, req *request, o outcome, why error) {
	said := facts(req, o)
	if errors.Is(why, errSuperseded) {
		said = append(said, "reason", why.Error())
	}
	log.FromContext(ctx).Info("Discarded certificate that was signed but not stored", said...)
}

func (r *reconciler) refused(ctx context.Context, req *request, o outcome) {
	cond := o.condition
	log.FromContext(ctx).Info("Refused request", "signer", req.Spec.SignerName, "uid", req.UID,
		"condition", cond.Type, "reason", cond.Reason, "message", cond.Message)
	r.metrics.Refused.WithLabelValues(req.Spec.SignerName, cond.Reason).Inc()
	r.event(req, corev1.EventTypeWarning, cond.Reason, cond.Message)
}

// How many events a second tell of requests that wait, and how many at once.
// All have the same cause, and the store may be what is in trouble.
const (
	warningRate  = 5
	warningBurst = 50
)

// delayed tells of a request that waits: on the request there is no place for
// it, the API takes no status but an answer.
func (r *reconciler) delayed(ctx context.Context, req *request, o outcome) {
	r.metrics.Delayed.WithLabelValues(req.Spec.SignerName, o.reason).Inc()
	if o.after > 0 { // else the queue logs it
		log.FromContext(ctx).Info("Delayed request", "signer", req.Spec.SignerName, "uid", req.UID, "retryAfter", o.after, "why", o.retry.Error())
	}
	if r.warnings.TryAccept() {
		r.event(req, corev1.EventTypeWarning, o.reason, o.note)
	}
}

func (r *reconciler) event(req *request, kind, reason, note string) {
	if r.Events != nil {
		r.Events.Eventf(toAPI(req, r.version), nil, kind, reason, action, "%s", note)
	}
}

// facts identify a certificate and its request in logs.
func facts(req *request, o outcome) []any {
	said := []any{
		"signer", req.Spec.SignerName,
		"uid", req.UID,
		"pod", req.Spec.PodName,
		"serviceAccount", req.Spec.ServiceAccountName,
		"beginRefreshAt", o.issued.RefreshAt,
	}
	return append(said, pki.LogFacts(o.issued.Certificate)...)
}
