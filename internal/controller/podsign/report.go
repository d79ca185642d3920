package podsign

import (
	"time"

	"github.com/certplane/certplane/internal/answer"
)

// How many events a second tell of requests that wait, and how many at once.
// All have the same cause, and the store may be what is in trouble.
const (
	warningRate  = 5
	warningBurst = 50
)

// reportOn is what is reported of a request on which work begins at start.
func (r *reconciler) reportOn(req *podRequest, start time.Time) answer.Report {
	queued := max(0, start.Sub(req.CreationTimestamp.Time))
	return answer.Report{
		Object: r.version.From(req), Recorder: r.Events, Signer: req.Spec.SignerName,
		Facts: []any{
			"signer", req.Spec.SignerName, "uid", req.UID, "pod", req.Spec.PodName, "serviceAccount", req.Spec.ServiceAccountName,
		},
		Metrics: r.metrics, Clock: r.Clock, Start: start, Queued: &queued,
		Answered: func(issued bool) { r.Signers.Count(req.Spec.SignerName, issued, r.Clock.Now()) },
	}
}
