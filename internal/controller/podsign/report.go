package podsign

import (
	"time"

	"github.com/certplane/certplane/internal/issuing/outcome"
)

// The number of Events about waiting requests per second, and their burst. All
// of them have the same cause, and the store may be what has the problem.
const (
	warningRate  = 5
	warningBurst = 50
)

// reportOn returns the report on a request that is processed from start on.
func (r *reconciler) reportOn(req *podRequest, start time.Time) outcome.Report {
	queued := max(0, start.Sub(req.CreationTimestamp.Time))
	return outcome.Report{
		Object: r.version.From(req), Recorder: r.Events, Signer: req.Spec.SignerName,
		Facts: []any{
			"signer", req.Spec.SignerName, "uid", req.UID, "pod", req.Spec.PodName, "serviceAccount", req.Spec.ServiceAccountName,
		},
		Metrics: r.metrics, Clock: r.Clock, Start: start, Queued: &queued,
		Answered: func(issued bool) { r.Signers.Count(req.Spec.SignerName, issued, r.Clock.Now()) },
	}
}
