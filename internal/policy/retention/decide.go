// Package retention decides when requests for certificates are deleted.
package retention

import (
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
)

type csr = certificatesv1.CertificateSigningRequest

// Limits define how long requests are kept, counted as by the cleaner of
// Kubernetes. A limit of zero keeps them forever.
type Limits struct {
	// Issued counts from the approval of a request that has its certificate.
	Issued time.Duration
	// Denied and Failed count from the condition of that type.
	Denied, Failed time.Duration
	// Pending counts from the creation of a request without any condition.
	Pending time.Duration
	// Approved counts from the approval of a request that has no certificate.
	Approved time.Duration
	// Undecided counts from the creation of a request that has conditions, but
	// none for the other limits. Kubernetes keeps such requests.
	Undecided time.Duration
	// Fetch is how long a certificate is kept at least, so that the requester
	// can fetch it even if it was issued long after the approval. It counts
	// from when the certificate was signed, as far as the certificate shows
	// that.
	Fetch time.Duration
}

// Reason is why a request is deleted.
type Reason string

// The reasons, in order of precedence.
const (
	Issued    Reason = "issued"
	Denied    Reason = "denied"
	Failed    Reason = "failed"
	Pending   Reason = "pending"
	Expired   Reason = "expired"
	Approved  Reason = "approved"
	Undecided Reason = "undecided"
	// Finished is a pod's request that has any outcome.
	Finished Reason = "finished"
	// Excess is a reason that depends on the requester's other requests.
	Excess Reason = "excess"
)

// Verdict is the decision about a request.
type Verdict struct {
	// Reason is why the request is to be deleted now; empty if it is kept.
	Reason Reason
	// Message explains the reason.
	Message string
	// Again is when the verdict on a kept request changes with time; zero if never.
	Again time.Time
}

// Delete reports whether the request is to be deleted now.
func (v Verdict) Delete() bool { return v.Reason != "" }

// class is a class of requests with one age limit.
type class struct {
	reason Reason
	words  string // the event from which the age counts
	// since returns the start of the age; zero for a request of another class.
	since func(request) time.Time
	limit func(Limits) time.Duration
}

// classes are the classes of Kubernetes' cleaner, in its order. Conditions
// count by their presence alone.
var classes = []class{
	{Issued, "issued after an approval", request.issuedSince, func(l Limits) time.Duration { return l.Issued }},
	{Denied, "denied", request.deniedSince, func(l Limits) time.Duration { return l.Denied }},
	{Failed, "failed", request.failedSince, func(l Limits) time.Duration { return l.Failed }},
	{Pending, "created", request.pendingSince, func(l Limits) time.Duration { return l.Pending }},
	{Expired, "expired", request.expiry, func(Limits) time.Duration { return atOnce }},
	{Approved, "approved", request.unissuedSince, func(l Limits) time.Duration { return l.Approved }},
}

// undecided is the class of requests that are in no other class.
var undecided = class{Undecided, "created", request.created, func(l Limits) time.Duration { return l.Undecided }}

// atOnce is the shortest limit, as zero means no limit.
const atOnce = time.Nanosecond

// Decide returns whether a request is deleted now, and if not, when to check
// again. A request whose age equals its limit is still kept.
func Decide(c *csr, now time.Time, limits Limits) Verdict {
	if !c.DeletionTimestamp.IsZero() {
		return Verdict{}
	}
	var again time.Time
	r, classified := newRequest(c), false
	for _, class := range classes {
		if class.since(r).IsZero() {
			continue
		}
		classified = true
		v := class.decide(r, now, limits)
		if v.Delete() {
			return v
		}
		again = pki.Soonest(again, v.Again)
	}
	if !classified {
		return undecided.decide(r, now, limits)
	}
	return Verdict{Again: again}
}

func (k class) decide(r request, now time.Time, limits Limits) Verdict {
	since, limit := k.since(r), k.limit(limits)
	if since.IsZero() || limit <= 0 {
		return Verdict{}
	}
	deadline := since.Add(limit)
	if k.reason == Issued {
		deadline = pki.Later(deadline, r.latestSigning(now).Add(limits.Fetch))
	}
	if now.After(deadline) {
		return Verdict{Reason: k.reason, Message: fmt.Sprintf("%s %s ago", k.words, duration.Format(now.Sub(since).Truncate(time.Second)))}
	}
	return Verdict{Again: deadline.Add(time.Nanosecond)}
}
