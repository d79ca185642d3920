package sign

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer/metrics"
)

// action is what events say the signer was doing.
const action = "Sign"

// reporter tells operators what has become of requests.
type reporter struct {
	signerName string
	several    bool                             // signerName is not that of one signer
	answered   func(signer string, issued bool) // can be nil
	metrics    *metrics.Metrics
	events     events.EventRecorder // can be nil
	// issuedEvent is the reason of Events about certificates, awaitedEvent that of
	// those about approvals that are missing.
	issuedEvent, awaitedEvent string
}

// times are those of the work on one request.
type times struct{ start, signed, end time.Time }

// outcome reports one outcome. Every signature that the CA's key has made is
// logged with its serial number, also if its certificate reached nobody:
// whoever audits the key wants to know.
func (r reporter) outcome(ctx context.Context, c *csr, o outcome, stored error, t times) {
	if r.several {
		r.signerName = c.Spec.SignerName
	}
	if final := o.issued != nil || o.retry == nil; final && stored == nil && r.answered != nil {
		r.answered(r.signerName, o.issued != nil)
	}
	switch {
	case o.issued != nil && stored != nil:
		r.discarded(ctx, c, o, stored)
	case o.issued != nil:
		r.issued(ctx, c, o, t)
	case stored == nil:
		r.condition(ctx, c, o)
	}
	if wait, known := waited(c, t.start); known && stored == nil {
		r.metrics.QueueWait.WithLabelValues(r.signerName).Observe(wait.Seconds())
	}
}

// waited tells how long an approved request waited until work began. One that
// was delayed before waited for the CA and not in the queue.
func waited(c *csr, start time.Time) (wait time.Duration, known bool) {
	approved := certificates.Condition(c, certificatesv1.CertificateApproved)
	if approved == nil || approved.LastUpdateTime.IsZero() || certificates.Condition(c, ConditionDelayed) != nil {
		return 0, false
	}
	return max(0, start.Sub(approved.LastUpdateTime.Time)), true // clocks differ
}

func (r reporter) issued(ctx context.Context, c *csr, o outcome, t times) {
	cert := o.issued.Certificate
	log.FromContext(ctx).Info("Issued certificate", r.facts(c, cert)...)
	r.metrics.Issued.WithLabelValues(r.signerName).Inc()
	r.metrics.Signature.WithLabelValues(r.signerName).Observe(t.signed.Sub(t.start).Seconds())
	r.metrics.Duration.WithLabelValues(r.signerName).Observe(t.end.Sub(t.start).Seconds())
	note := fmt.Sprintf("Issued the certificate with serial number %x and SHA-256 fingerprint %s", cert.SerialNumber, pki.Fingerprint(cert))
	if o.issued.Cut > 0 {
		r.metrics.Shortened.WithLabelValues(r.signerName).Inc()
		note += fmt.Sprintf(", which ends on %s with its CA, %v earlier than it was to", cert.NotAfter.Format(time.RFC3339), o.issued.Cut)
	}
	r.event(c, corev1.EventTypeNormal, r.issuedEvent, "%s", note)
}

func (r reporter) discarded(ctx context.Context, c *csr, o outcome, why error) {
	facts := r.facts(c, o.issued.Certificate)
	if errors.Is(why, errSuperseded) {
		facts = append(facts, "reason", why.Error())
	}
	log.FromContext(ctx).Info("Discarded certificate that was signed but not stored", facts...)
}

func (r reporter) condition(ctx context.Context, c *csr, o outcome) {
	cond := o.condition
	if cond.Type == certificatesv1.CertificateFailed {
		log.FromContext(ctx).Info("Refused request", "signer", r.signerName, "uid", c.UID, "reason", cond.Reason, "message", cond.Message)
		r.metrics.Refused.WithLabelValues(r.signerName, metrics.ReasonLabel(cond.Reason)).Inc()
	} else {
		r.metrics.Delayed.WithLabelValues(r.signerName, metrics.ReasonLabel(cond.Reason)).Inc()
	}
	if o.after > 0 { // else the queue logs it
		log.FromContext(ctx).Info("Delayed request", "signer", r.signerName, "uid", c.UID, "retryAfter", o.after, "why", o.retry.Error())
	}
	r.event(c, corev1.EventTypeWarning, cond.Reason, "%s", o.note)
}

// awaited tells that somebody has to decide about a request.
func (r reporter) awaited(c *csr) {
	r.event(c, corev1.EventTypeNormal, r.awaitedEvent, "Waiting for an approval: kubectl certificate approve %s", c.Name)
}

func (r reporter) event(c *csr, kind, reason, note string, args ...any) {
	if r.events != nil {
		r.events.Eventf(c, nil, kind, reason, action, note, args...)
	}
}

// facts identify a certificate and its request in logs.
func (r reporter) facts(c *csr, cert *x509.Certificate) []any {
	request := []any{"signer", r.signerName, "uid", c.UID, "requester", c.Spec.Username}
	return append(request, pki.LogFacts(cert)...)
}
