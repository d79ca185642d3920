package sign

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/pki"
)

// action is what events say the signer was doing.
const action = "Sign"

// reporter tells operators what has become of requests.
type reporter struct {
	signerName string
	metrics    *metrics
	events     events.EventRecorder // can be nil
}

// outcome reports one outcome. Every signature that the CA's key has made is
// logged with its serial number, also if its certificate reached nobody:
// whoever audits the key wants to know.
func (r reporter) outcome(ctx context.Context, c *csr, o outcome, stored error, took time.Duration) {
	switch {
	case o.issued != nil && stored != nil:
		r.discarded(ctx, c, o, stored)
	case o.issued != nil:
		r.issued(ctx, c, o, took)
	case stored == nil:
		r.condition(ctx, c, o)
	}
}

func (r reporter) issued(ctx context.Context, c *csr, o outcome, took time.Duration) {
	cert := o.issued.Certificate
	log.FromContext(ctx).Info("Issued certificate", r.facts(c, cert)...)
	r.metrics.issued.WithLabelValues(r.signerName).Inc()
	r.metrics.duration.WithLabelValues(r.signerName).Observe(took.Seconds())
	r.event(c, corev1.EventTypeNormal, "Issued", "Issued the certificate with serial number %x and SHA-256 fingerprint %s", cert.SerialNumber, pki.Fingerprint(cert))
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
		r.metrics.refused.WithLabelValues(r.signerName, reasonLabel(cond.Reason)).Inc()
	} else {
		r.metrics.delayed.WithLabelValues(r.signerName, reasonLabel(cond.Reason)).Inc()
	}
	if o.after > 0 { // else the queue logs it
		log.FromContext(ctx).Info("Delayed request", "signer", r.signerName, "uid", c.UID, "retryAfter", o.after, "why", o.retry.Error())
	}
	r.event(c, corev1.EventTypeWarning, cond.Reason, "%s", o.note)
}

func (r reporter) event(c *csr, kind, reason, note string, args ...any) {
	if r.events != nil {
		r.events.Eventf(c, nil, kind, reason, action, note, args...)
	}
}

// facts identify a certificate in logs.
func (r reporter) facts(c *csr, cert *x509.Certificate) []any {
	return []any{
		"signer", r.signerName,
		"uid", c.UID,
		"requester", c.Spec.Username,
		"subject", cert.Subject.String(),
		"serial", cert.SerialNumber.Text(16),
		"sha256", pki.Fingerprint(cert),
		"notBefore", cert.NotBefore,
		"notAfter", cert.NotAfter,
	}
}
