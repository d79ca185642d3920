package apiserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/share"
)

const (
	// bodyPiece is how much of a body is read at a time. Each one gives its
	// request a second more.
	bodyPiece = 16 << 10
	// guaranteedBody is what each tenant may have in bodies although there is no
	// more room for all: enough for a request for a certificate, many times.
	guaranteedBody = 256 << 10
)

// errNoRoom says that a body does not fit into what its tenant may have.
var errNoRoom = errors.New("no room for the body")

// body is what has arrived of a request's body.
type body struct {
	limiter *limiter
	tenant  share.Tenant
	taken   int64 // of the budget
	data    []byte
}

// receive reads the body of a request of tenant as far as handlers will. They
// find it in the request then, with the error that it ended with. It fails with
// errNoRoom, or with os.ErrDeadlineExceeded when the body comes too slowly. The
// caller has to release what it returns.
func (l *limiter) receive(r *http.Request, tenant share.Tenant) (*body, error) {
	b := &body{limiter: l, tenant: tenant}
	answer := answerTo(r)
	deadline, set := time.Now().Add(l.cfg.BodyTimeout.Duration), time.Time{}
	whole := int(l.generic.MaxRequestBodyBytes) + 1 // one byte more is what handlers call too large
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

// readPiece reads what comes next, up to whole bytes altogether.
func (b *body) readPiece(r *http.Request, whole int) (int, error) {
	size := max(bytes.MinRead, len(b.data)) // doubling
	if known := int(r.ContentLength) + 1; len(b.data) == 0 && known > 0 {
		size = known // one more is room to see the end
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

// earlier is the end of the request, if it comes before deadline.
func earlier(deadline time.Time, r *http.Request) time.Time {
	if end, limited := r.Context().Deadline(); limited && end.Add(timeoutGrace).Before(deadline) {
		return end.Add(timeoutGrace)
	}
	return deadline
}

// take takes n bytes more of the budget, and reports whether they were there.
func (b *body) take(n int) bool {
	if !b.limiter.bodies.Take(b.tenant, int64(n)) {
		return false
	}
	b.taken += int64(n)
	b.limiter.metrics.bodies.WithLabelValues(b.tenant.Class).Add(float64(n))
	return true
}

// release gives back what the body took.
func (b *body) release() {
	b.limiter.bodies.Give(b.tenant, b.taken)
	b.limiter.metrics.bodies.WithLabelValues(b.tenant.Class).Sub(float64(b.taken))
	b.taken = 0
}

// received is a body that has been read before.
type received struct {
	io.Reader
	io.Closer
}

// failing ends a reader as the body has ended.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}
