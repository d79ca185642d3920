package retention

import (
	"cmp"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
)

// Cap limits the requests of one requester.
type Cap struct {
	// Max is the maximum number of requests; 0 means no limit.
	Max int
	// MaxBytes is the maximum of their total size; 0 means no limit.
	MaxBytes int64
	// Spare is how old the outcome of a request must be before the request is
	// deleted because of the cap: the requester has that long to read it.
	Spare time.Duration
}

// Exceeded reports whether count requests with a total size of bytes exceed the
// cap.
func (c Cap) Exceeded(count int, bytes int64) bool {
	return !c.allows(amount{count, bytes}, 1)
}

// tolerance is the multiple of the cap up to which spared requests are kept.
const tolerance = 10

// rank is the order of deletion: the lowest rank is deleted first.
type rank int

const (
	// These are deleted over the cap.
	finished rank = iota // its requester had time to read the outcome
	waiting              // not decided in that time
	// These are also deleted over tolerance times the cap: a full store serves
	// no client.
	stuck         // approved, but no signer has answered in that time
	freshPending  // created just now
	freshFinished // its requester may not have read the outcome
	// This is never deleted: its certificate is being issued.
	underway
)

// candidate is a request with its place in the order of deletion.
type candidate[T any] struct {
	request T
	name    string
	rank    rank
	since   time.Time
	bytes   int64
}

// amount is a number of requests and their total size.
type amount struct {
	count int
	bytes int64
}

func (a *amount) add(bytes int64) {
	a.count++
	a.bytes += bytes
}

func (a *amount) remove(bytes int64) {
	a.count--
	a.bytes -= bytes
}

// Surplus returns the requests of one requester that exceed the cap, in order
// of deletion. again is when to check again if there are too many and some are
// still spared, otherwise zero. Requests that are being deleted are not
// returned, but they count: a finalizer may keep them forever.
func Surplus(requests []*csr, now time.Time, limit Cap) (surplus []*csr, again time.Time) {
	var total amount
	for _, c := range requests {
		total.add(Size(c))
	}
	if limit.allows(total, 1) {
		return nil, time.Time{}
	}
	queue := make([]candidate[*csr], 0, len(requests))
	for _, c := range requests {
		if c.DeletionTimestamp.IsZero() {
			queue = append(queue, newCandidate(c, now, limit.Spare))
		}
	}
	return surplusOf(queue, total, now, limit)
}

// Size returns the approximate size of a request in the store, in bytes.
func Size(c *csr) int64 { return int64(c.Size()) }

// surplusOf sorts candidates by the order of deletion and returns those to
// delete. total is the amount of all requests.
func surplusOf[T any](queue []candidate[T], total amount, now time.Time, limit Cap) (surplus []T, again time.Time) {
	slices.SortFunc(queue, func(a, b candidate[T]) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.since.Compare(b.since), cmp.Compare(a.name, b.name))
	})
	for _, c := range queue {
		if limit.spares(c.rank, total) {
			break
		}
		surplus = append(surplus, c.request)
		total.remove(c.bytes)
	}
	if len(queue) > len(surplus) && !limit.allows(total, 1) {
		again = now.Add(max(limit.Spare, time.Second))
	}
	return surplus, again
}

// spares reports whether requests of a rank are kept at this total amount.
func (c Cap) spares(r rank, total amount) bool {
	switch {
	case r < stuck:
		return c.allows(total, 1)
	case r < underway:
		return c.allows(total, tolerance)
	default:
		return true
	}
}

func (c Cap) allows(total amount, times int) bool {
	return (c.Max <= 0 || total.count <= times*c.Max) && (c.MaxBytes <= 0 || total.bytes <= int64(times)*c.MaxBytes)
}

func newCandidate(c *csr, now time.Time, spare time.Duration) candidate[*csr] {
	r := request{csr: c}
	spared := func(since time.Time) bool { return now.Sub(since) <= spare }
	place := func(rank rank, since time.Time) candidate[*csr] {
		return candidate[*csr]{c, c.Name, rank, since, Size(c)}
	}
	switch {
	case r.hasCondition(certificatesv1.CertificateDenied), r.hasCondition(certificatesv1.CertificateFailed), r.issued():
		since := r.finishedSince()
		if !spared(since) && r.issued() { // it may have been issued long after its approval
			since = pki.Later(since, newRequest(c).latestSigning(now))
		}
		return place(either(spared(since), freshFinished, finished), since)
	case r.hasCondition(certificatesv1.CertificateApproved):
		since := r.unissuedSince()
		return place(either(spared(since), underway, stuck), since)
	default:
		return place(either(spared(r.created()), freshPending, waiting), r.created())
	}
}

// finishedSince returns the time of the latest decision about a request.
func (r request) finishedSince() time.Time {
	return pki.Later(pki.Later(r.issuedSince(), r.deniedSince()), r.failedSince())
}

func either(fresh bool, ifFresh, ifNot rank) rank {
	if fresh {
		return ifFresh
	}
	return ifNot
}
