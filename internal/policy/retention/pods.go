package retention

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PodRequest contains the fields of a PodCertificateRequest, of any API version, that
// decide about its deletion.
type PodRequest struct {
	Namespace, Name string
	UID             types.UID
	// Node is the node of the request.
	Node, SignerName string
	Created          time.Time
	// Finished is when the request got its outcome; zero if it has none.
	Finished time.Time
	// Issued is set if the request has a certificate.
	Issued bool
	// Deleting is set if the request is being deleted already.
	Deleting bool
	// Bytes is the approximate size of the request in the store.
	Bytes int64
}

// DefaultPodAge is how long a pod's request is kept by default, as in
// Kubernetes.
const DefaultPodAge = 15 * time.Minute

// DecidePod returns whether a pod's request is deleted now, which is age after
// its creation, and if not, when it will be. Its outcome does not matter: the
// node has read it by then, or otherwise requests another certificate. An age
// of zero keeps requests forever.
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
	since, fresh, old := r.Created, freshPending, waiting
	if !r.Finished.IsZero() {
		since, fresh, old = r.Finished, freshFinished, finished
	}
	return candidate[PodRequest]{r, r.Namespace + "/" + r.Name, either(now.Sub(since) <= spare, fresh, old), since, r.Bytes}
}
