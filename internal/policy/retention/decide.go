// Package retention decides when requests for certificates are deleted.
package retention

import (
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
)

type csr = certificatesv1.CertificateSigningRequest

// Limits say how long requests are kept, counted as Kubernetes' cleaner counts
// it. A limit of zero keeps them forever.
type Limits struct {
	// Issued counts from the approval of a request that has its certificate.
	Issued time.Duration
	// Denied and Failed count from the condition that says so.
	Denied, Failed time.Duration
	// Pending counts from the creation of a request without any condition.
	Pending time.Duration
	// Approved counts from the approval of a request that has no certificate.
	Approved time.Duration
	// Undecided counts from the creation of a request that has conditions, but
	// none by which the other limits could count. Kubernetes keeps those.
	Undecided time.Duration
	// Fetch is how long a certificate stays at least, so that whoever asked
	// for it can fetch it, also if it was issued long after the approval. It
	// counts from when the certificate was made, as far as it tells.
	Fetch time.Duration
}

// Reason is why a request is deleted.
type Reason string

// The reasons, in the order in which they count.
const (
	Issued    Reason = "issued"
	Denied    Reason = "denied"
	Failed    Reason = "failed"
	Pending   Reason = "pending"
	Expired   Reason = "expired"
	Approved  Reason = "approved"
	Undecided Reason = "undecided"
	// Finished is a request for a pod that has an outcome, of which kind ever.
	Finished Reason = "finished"
	// Excess is a reason in the company of other requests alone.
	Excess Reason = "excess"
)

// Verdict is what becomes of a request.
type Verdict struct {
	// Reason is why it is to be deleted now; empty if it is to be kept.
	Reason Reason
	// Message says that in words.
	Message string
	// Again is when the verdict on a request that is kept changes by itself;
	// zero if never.
	Again time.Time
}

// Delete reports whether the request is to be deleted now.
func (v Verdict) Delete() bool { return v.Reason != "" }

// class is a way in which a request grows old.
type class struct {
	reason Reason
	words  string // what has happened that long ago
	// since is from when the age counts; zero for a request of another class.
	since func(request) time.Time
	limit func(Limits) time.Duration
}

// classes are those of Kubernetes' cleaner, in its order. Conditions count by
// their presence alone.
var classes = []class{
	{Issued, "issued after an approval", request.issuedSince, func(l Limits) time.Duration { return l.Issued }},
	{Denied, "denied", request.deniedSince, func(l Limits) time.Duration { return l.Denied }},
	{Failed, "failed", request.failedSince, func(l Limits) time.Duration { return l.Failed }},
	{Pending, "created", request.pendingSince, func(l Limits) time.Duration { return l.Pending }},
	{Expired, "expired", request.expiry, func(Limits) time.Duration { return atOnce }},
	{Approved, "approved", request.unissuedSince, func(l Limits) time.Duration { return l.Approved }},
}

// undecided is the class of requests that are in no other one.
var undecided = class{Undecided, "created", request.created, func(l Limits) time.Duration { return l.Undecided }}

// atOnce is the shortest limit that is one.
const atOnce = time.Nanosecond

// Decide reports whether a request is deleted now, and if not, when to look
// again. An age that equals its limit is still young enough.
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
		deadline = pki.Later(deadline, r.made(now).Add(limits.Fetch))
	}
	if now.After(deadline) {
		return Verdict{Reason: k.reason, Message: fmt.Sprintf("%s %v ago", k.words, now.Sub(since).Truncate(time.Second))}
	}
	return Verdict{Again: deadline.Add(time.Nanosecond)}
}
