package signers

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	signing "github.com/certplane/certplane/internal/issuing/signer/metrics"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/collector"
)

type metrics struct {
	*signing.Metrics
	ready *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	all, err := signing.New(registry)
	if err != nil {
		return nil, err
	}
	m := &metrics{Metrics: all, ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "certplane",
		Subsystem: "signer",
		Name:      "ready",
		Help:      "Whether a declared signer can sign, by signer: 1 if so, 0 if not.",
	}, []string{"signer"})}
	return m, errors.Join(collector.Share(registry, &m.ready))
}

// forget removes the metrics of a deleted signer.
func (m *metrics) forget(signerName string) {
	m.Forget(signerName)
	m.ready.DeleteLabelValues(signerName)
}

// observe reports a signer's state to operators when it has changed.
func (r *reconciler) observe(s *v1alpha1.Signer, st state, now time.Time) {
	known := r.memory.entry(s)
	reason := ""
	if st.problem != nil {
		reason = st.problem.reason
	}
	if reason != known.reason {
		switch {
		case st.problem != nil:
			r.warn(s, reason, "Open", "%s", st.problem.message)
		default:
			r.event(s, corev1.EventTypeNormal, reasonReady, "Open", "The signer can sign again")
		}
	}
	known.reason = reason
	if reason == reasonDuplicate || reason == reasonTaken {
		return // the metrics belong to the other one
	}
	r.measure(s, st, now)
	r.warnOfEnd(s, st, known, now)
}

func (r *reconciler) measure(s *v1alpha1.Signer, st state, now time.Time) {
	r.metrics.Begin(s.Spec.SignerName)
	ready := 0.0
	if st.signs(now) {
		ready = 1
	}
	r.metrics.ready.WithLabelValues(s.Spec.SignerName).Set(ready)
	if end := st.issuer.end(); !end.IsZero() {
		r.metrics.NotAfter.WithLabelValues(s.Spec.SignerName).Set(float64(end.Unix()))
	}
}

// warnEvery is the interval between warnings of a Signer that its CA expires soon.
const warnEvery = 24 * time.Hour

// warnOfEnd warns operators in time before a CA expires that they have to
// replace.
func (r *reconciler) warnOfEnd(s *v1alpha1.Signer, st state, known *signerMemory, now time.Time) {
	cert := st.issuer.certificate()
	if cert == nil || s.Spec.CA.Generated != nil {
		return
	}
	before := min(r.Settings.WarnBefore.Duration, cert.NotAfter.Sub(cert.NotBefore)/5)
	if now.Before(cert.NotAfter.Add(-before)) || !known.warned.Due(pki.Fingerprint(cert), now, warnEvery) {
		return
	}
	r.warn(s, "CAEndsSoon", "Look", "The CA of signer %s expires on %s: replace it before then", s.Spec.SignerName, cert.NotAfter.Format(time.RFC3339))
}
