package retention

import (
	"cmp"
	"math"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Cap bounds how many requests of one requester there are.
type Cap struct {
	// Max is how many there may be; 0 is no bound.
	Max int
	// Spare is how old what has become of a request must be before it goes
	// for the sake of the cap: whoever asked has that long to see it.
	Spare time.Duration
}

// tolerance is how many times Max there can be while all are spared.
const tolerance = 10

// rank tells who goes first, the lowest.
type rank int

const (
	// Over Max, these go.
	finished rank = iota // its requester had time to see the outcome
	waiting              // nobody has decided in all the time
	// Over tolerance times Max, these go too: a store that is full serves nobody.
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
}

// Surplus returns those of one requester's requests that are too many, the
// first to go first. again is when to look once more, if there are too many
// and some are spared still, else zero.
func Surplus(requests []*csr, now time.Time, limit Cap) (surplus []*csr, again time.Time) {
	if limit.Max <= 0 || len(requests) <= limit.Max {
		return nil, time.Time{}
	}
	queue := make([]candidate[*csr], 0, len(requests))
	for _, c := range requests {
		if c.DeletionTimestamp.IsZero() {
			queue = append(queue, newCandidate(c, now, limit.Spare))
		}
	}
	return surplusOf(queue, now, limit)
}

// surplusOf puts candidates in the order to go and returns those that must.
func surplusOf[T any](queue []candidate[T], now time.Time, limit Cap) (surplus []T, again time.Time) {
	slices.SortFunc(queue, func(a, b candidate[T]) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.since.Compare(b.since), cmp.Compare(a.name, b.name))
	})
	for i, c := range queue {
		if len(queue)-i <= limit.room(c.rank) {
			break
		}
		surplus = append(surplus, c.request)
	}
	if len(queue)-len(surplus) > limit.Max {
		again = now.Add(max(limit.Spare, time.Second))
	}
	return surplus, again
}

// room is how many requests there may be before one of a rank has to go.
func (c Cap) room(r rank) int {
	switch {
	case r < stuck:
		return c.Max
	case r < underway:
		return tolerance * c.Max
	default:
		return math.MaxInt
	}
}

func newCandidate(c *csr, now time.Time, spare time.Duration) candidate[*csr] {
	r := request{csr: c}
	spared := func(since time.Time) bool { return now.Sub(since) <= spare }
	switch {
	case r.has(certificatesv1.CertificateDenied), r.has(certificatesv1.CertificateFailed), r.issued():
		since := r.finishedSince()
		if !spared(since) && r.issued() { // it may have been issued long after its approval
			since = later(since, newRequest(c).made(now))
		}
		return candidate[*csr]{c, c.Name, either(spared(since), freshFinished, finished), since}
	case r.has(certificatesv1.CertificateApproved):
		since := r.unissuedSince()
		return candidate[*csr]{c, c.Name, either(spared(since), underway, stuck), since}
	default:
		return candidate[*csr]{c, c.Name, either(spared(r.created()), freshAsked, waiting), r.created()}
	}
}

// finishedSince is the latest decision about a request.
func (r request) finishedSince() time.Time {
	return later(later(r.issuedSince(), r.deniedSince()), r.failedSince())
}

func either(fresh bool, ifFresh, ifNot rank) rank {
	if fresh {
		return ifFresh
	}
	return ifNot
}
