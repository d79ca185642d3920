package retention

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PodRequest is what decides about a PodCertificateRequest, whichever version
// it has.
type PodRequest struct {
	Namespace, Name string
	UID             types.UID
	// Node is who has asked.
	Node, SignerName string
	Created          time.Time
	// Finished is since when the request has its outcome; zero if it has none.
	Finished time.Time
	// Deleting is set when it is being deleted already.
	Deleting bool
	// Bytes is about how much of the store it takes.
	Bytes int64
}

// DecidePod reports whether a request for the certificate of a pod is deleted
// now, age after its creation, and if not, when it will be. Its outcome does
// not matter: a node has read it by then, and one that has not asks again. Zero
// keeps requests forever.
func DecidePod(r PodRequest, now time.Time, age time.Duration) Verdict {
	if r.Deleting || age <= 0 {
		return Verdict{}
	}
	deadline := r.Created.Add(age)
	if now.Before(deadline) {
		return Verdict{Again: deadline}
	}
	reason := Pending
	if !r.Finished.IsZero() {
		reason = Finished
	}
	return Verdict{Reason: reason, Message: fmt.Sprintf("created %v ago", now.Sub(r.Created).Truncate(time.Second))}
}

// PodSurplus is Surplus for the requests of one node.
func PodSurplus(requests []PodRequest, now time.Time, limit Cap) (surplus []PodRequest, again time.Time) {
	var total amount
	for _, r := range requests {
		total.add(r.Bytes)
	}
	if limit.allows(total, 1) {
		return nil, time.Time{}
	}
	queue := make([]candidate[PodRequest], 0, len(requests))
	for _, r := range requests {
		if !r.Deleting {
			queue = append(queue, newPodCandidate(r, now, limit.Spare))
		}
	}
	return surplusOf(queue, total, now, limit)
}

func newPodCandidate(r PodRequest, now time.Time, spare time.Duration) candidate[PodRequest] {
	since, fresh, old := r.Created, freshAsked, waiting
	if !r.Finished.IsZero() {
		since, fresh, old = r.Finished, freshFinished, finished
	}
	return candidate[PodRequest]{r, r.Namespace + "/" + r.Name, either(now.Sub(since) <= spare, fresh, old), since, r.Bytes}
}
