package apiserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/tenant/fairshare"
)

const (
	// bodyPiece is how much of a body is read at a time. Each piece gives its
	// request one more second.
	bodyPiece = 16 << 10
	// guaranteedBody is the size of the bodies that each tenant may send even
	// if the shared budget is used up: enough for many requests for
	// certificates.
	guaranteedBody = 256 << 10
)

// errNoRoom means that a body does not fit into the tenant's budget.
var errNoRoom = errors.New("no room for the body")

// body is the part of a request's body that has arrived.
type body struct {
	limiter *limiter
	tenant  fairshare.Tenant
	taken   int64 // from the budget
	data    []byte
}

// receive reads the body of a request of tenant, up to the limit of the
// handlers. It replaces the request's body with what it has read and the error
// with which the body ended. It returns errNoRoom, or os.ErrDeadlineExceeded
// when the body arrives too slowly. The caller must release the result.
func (l *limiter) receive(r *http.Request, tenant fairshare.Tenant) (*body, error) {
	b := &body{limiter: l, tenant: tenant}
	answer := answerTo(r)
	deadline, set := time.Now().Add(l.cfg.BodyTimeout.Duration), time.Time{}
	whole := int(l.generic.MaxRequestBodyBytes) + 1 // with one byte more, handlers report it as too large
	for {
		if until := earlier(deadline, r); until.Sub(set) >= time.Second {
			answer.setReadDeadline(until)
			set = until
		}
		n, err := b.readPiece(r, whole)
		deadline = deadline.Add(time.Duration(n) * time.Second / bodyPiece)
		switch {
		case errors.Is(err, errNoRoom), errors.Is(err, os.ErrDeadlineExceeded):
			return b, err
		case err != nil || len(b.data) == whole:
			answer.setReadDeadline(earlier(time.Now().Add(l.cfg.RequestTimeout.Duration), r))
			r.Body = received{io.MultiReader(bytes.NewReader(b.data), failing{err}), r.Body}
			return b, nil
		}
	}
}

// readPiece reads the next piece, up to a total of whole bytes.
func (b *body) readPiece(r *http.Request, whole int) (int, error) {
	size := max(bytes.MinRead, len(b.data)) // doubling
	if known := int(r.ContentLength) + 1; len(b.data) == 0 && known > 0 {
		size = known // one more, to detect the end
	}
	size = min(size, bodyPiece, whole-len(b.data))
	b.data = slices.Grow(b.data, size)
	n, err := r.Body.Read(b.data[len(b.data) : len(b.data)+size])
	if !b.take(n) {
		return n, errNoRoom
	}
	b.data = b.data[:len(b.data)+n]
	return n, err
}

// earlier returns the end of the request if it is before deadline, and deadline
// otherwise.
func earlier(deadline time.Time, r *http.Request) time.Time {
	if end, limited := r.Context().Deadline(); limited && end.Add(timeoutGrace).Before(deadline) {
		return end.Add(timeoutGrace)
	}
	return deadline
}

// take takes n more bytes from the budget, and reports whether they were
// available.
func (b *body) take(n int) bool {
	if !b.limiter.bodies.Take(b.tenant, int64(n)) {
		return false
	}
	b.taken += int64(n)
	b.limiter.metrics.bodies.WithLabelValues(b.tenant.Class).Add(float64(n))
	return true
}

// release returns the memory of the body to the budget.
func (b *body) release() {
	b.limiter.bodies.Give(b.tenant, b.taken)
	b.limiter.metrics.bodies.WithLabelValues(b.tenant.Class).Sub(float64(b.taken))
	b.taken = 0
}

// received is a body that has already been read.
type received struct {
	io.Reader
	io.Closer
}

// failing is a reader that returns the error with which the body ended.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}
