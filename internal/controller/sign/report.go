package sign

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/events"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer/metrics"
)

// reporter reports to operators what has become of requests.
type reporter struct {
	signerName string
	several    bool                                           // signerName is not the name of a single signer
	answered   func(signer string, issued bool, at time.Time) // can be nil
	metrics    *metrics.Metrics
	events     events.EventRecorder // can be nil
	// issuedEvent is the reason of Events about certificates, awaitedEvent that
	// of Events about missing approvals.
	issuedEvent, awaitedEvent string
}

// reportOn returns the report on a request that is processed from start on.
func (r *reconciler) reportOn(c *csr, start time.Time) outcome.Report {
	name := r.signerName
	if r.several {
		name = c.Spec.SignerName
	}
	report := outcome.Report{
		Object: c, Recorder: r.events, Signer: name, Facts: []any{"signer", name, "uid", c.UID, "requester", c.Spec.Username},
		Metrics: r.metrics, Label: metrics.ReasonLabel, Clock: r.clock, Start: start,
	}
	if r.answered != nil {
		report.Answered = func(issued bool) { r.answered(name, issued, r.clock.Now()) }
	}
	if wait, known := waited(c, start); known {
		report.Queued = &wait
	}
	return report
}

// waited returns how long an approved request waited until work began. A
// request that was delayed before has waited for the CA and not in the queue.
func waited(c *csr, start time.Time) (wait time.Duration, known bool) {
	approved := certificates.Condition(c, certificatesv1.CertificateApproved)
	if approved == nil || approved.LastUpdateTime.IsZero() || certificates.Condition(c, certificates.ConditionDelayed) != nil {
		return 0, false
	}
	return max(0, start.Sub(approved.LastUpdateTime.Time)), true // clocks differ
}
