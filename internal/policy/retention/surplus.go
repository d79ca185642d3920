package retention

import (
	"cmp"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
)

// Cap bounds how many requests of one requester there are.
type Cap struct {
	// Max is how many there may be; 0 is no bound.
	Max int
	// MaxBytes is how large they may be together; 0 is no bound.
	MaxBytes int64
	// Spare is how old what has become of a request must be before it goes
	// for the sake of the cap: whoever asked has that long to see it.
	Spare time.Duration
}

// Exceeded reports whether so many requests of so many bytes are too many.
func (c Cap) Exceeded(count int, bytes int64) bool {
	return !c.allows(amount{count, bytes}, 1)
}

// tolerance is how many times the cap there can be while all are spared.
const tolerance = 10

// rank tells who goes first, the lowest.
type rank int

const (
	// Over the cap, these go.
	finished rank = iota // its requester had time to see the outcome
	waiting              // nobody has decided in all the time
	// Over tolerance times the cap, these go too: a store that is full serves
	// nobody.
	stuck         // approved, and no signer has answered in all the time
	freshAsked    // created just now
	freshFinished // its requester may not have seen the outcome
	// This never goes: its certificate is on its way.
	underway
)

// candidate is a request in its place in the queue to be deleted.
type candidate[T any] struct {
	request T
	name    string
	rank    rank
	since   time.Time
	bytes   int64
}

// amount is how much there is.
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

// Surplus returns those of one requester's requests that are too many, the
// first to go first. again is when to look once more, if there are too many
// and some are spared still, else zero. What is being deleted cannot go again,
// but counts: a finalizer may keep it forever.
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

// Size is about how many bytes of the store a request takes.
func Size(c *csr) int64 { return int64(c.Size()) }

// surplusOf puts candidates in the order to go and returns those that must.
// total is of all that there is.
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

// spares reports whether none of a rank has to go while there is so much.
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
	case r.has(certificatesv1.CertificateDenied), r.has(certificatesv1.CertificateFailed), r.issued():
		since := r.finishedSince()
		if !spared(since) && r.issued() { // it may have been issued long after its approval
			since = pki.Later(since, newRequest(c).made(now))
		}
		return place(either(spared(since), freshFinished, finished), since)
	case r.has(certificatesv1.CertificateApproved):
		since := r.unissuedSince()
		return place(either(spared(since), underway, stuck), since)
	default:
		return place(either(spared(r.created()), freshAsked, waiting), r.created())
	}
}

// finishedSince is the latest decision about a request.
func (r request) finishedSince() time.Time {
	return pki.Later(pki.Later(r.issuedSince(), r.deniedSince()), r.failedSince())
}

func either(fresh bool, ifFresh, ifNot rank) rank {
	if fresh {
		return ifFresh
	}
	return ifNot
}
