package requestsign

import (
	"context"
	"errors"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/pki"
)

// report tells operators and requesters what has become of a request. Every
// signature is logged with its serial number, also if its certificate reached
// nobody: whoever audits the key wants to know.
func (r *reconciler) report(ctx context.Context, cr *cmv1.CertificateRequest, a answer, stored error) {
	switch {
	case a.issued != nil && stored != nil:
		r.discarded(ctx, cr, a, stored)
	case a.issued != nil:
		r.issued(ctx, cr, a)
	case stored == nil:
		r.unanswered(ctx, cr, a)
	}
}

func (r *reconciler) issued(ctx context.Context, cr *cmv1.CertificateRequest, a answer) {
	log.FromContext(ctx).Info("Issued certificate", facts(cr, a)...)
	r.metrics.Issued.WithLabelValues(a.signer).Inc()
	r.metrics.Signature.WithLabelValues(a.signer).Observe(a.signed.Sub(a.start).Seconds())
	r.metrics.Duration.WithLabelValues(a.signer).Observe(r.Clock.Now().Sub(a.start).Seconds())
	for _, told := range a.outcome.issued.Notes {
		r.event(cr, a.by, corev1.EventTypeWarning, told.Reason, told.Message)
	}
	r.event(cr, a.by, a.kind(), a.event, a.message)
}

func (r *reconciler) discarded(ctx context.Context, cr *cmv1.CertificateRequest, a answer, why error) {
	said := facts(cr, a)
	if errors.Is(why, errSuperseded) {
		said = append(said, "reason", why.Error())
	}
	log.FromContext(ctx).Info("Discarded certificate that was signed but not stored", said...)
}

func (r *reconciler) unanswered(ctx context.Context, cr *cmv1.CertificateRequest, a answer) {
	log.FromContext(ctx).Info("Request has no certificate", "signer", a.signer, "uid", cr.UID, "state", a.reason, "reason", a.event, "message", a.message)
	switch {
	case a.failed() && a.event != "":
		r.metrics.Refused.WithLabelValues(a.signer, a.event).Inc()
	case !a.failed():
		r.metrics.Delayed.WithLabelValues(a.signer, a.event).Inc()
	}
	if a.event != "" {
		r.event(cr, a.by, a.kind(), a.event, a.message)
	}
}

func (r *reconciler) event(cr *cmv1.CertificateRequest, by certmanager.IssuerType, kind, reason, text string) {
	if recorder := r.Events[by]; recorder != nil {
		recorder.Eventf(cr, nil, kind, reason, "Sign", "%s", note.Fit(text))
	}
}

// facts identify a certificate and its request in logs.
func facts(cr *cmv1.CertificateRequest, a answer) []any {
	request := []any{"signer", a.signer, "uid", cr.UID, "requester", cr.Spec.Username}
	return append(request, pki.LogFacts(a.outcome.issued.Certificate)...)
}
