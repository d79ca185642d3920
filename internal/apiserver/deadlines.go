package apiserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/certplane/certplane/internal/tenants"
)

const (
	// answerStall is for how long a client may take nothing of its answer.
	answerStall = 10 * time.Second
	// connectionStall is the same for a connection, which may have many answers.
	connectionStall = 30 * time.Second
	// answerPiece is how much of an answer has to go within answerStall.
	answerPiece = 16 << 10
	// timeoutGrace lets the answer to a request that took too long come first.
	timeoutGrace = time.Second
	// maxHeader bounds what is kept of a request while it is answered. The
	// library reads up to 1 MiB; tokens and label selectors have some KiB.
	maxHeader = 128 << 10
)

// withDeadlines sees to it that no client keeps a request open: not by sending
// its body slowly, and not by not taking the answer. The library's filter stops
// waiting for the handler, but cannot end a Write that waits for the client.
func (l *limiter) withDeadlines(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isInside(r.Context()) {
			handler.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		if headerSize(r) > maxHeader {
			l.metrics.refused.WithLabelValues("header", tenants.ClassAnonymous).Inc()
			_ = control.SetWriteDeadline(time.Now().Add(answerStall))
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge) // and no text, which a client would have to take
			return
		}
		answer := &pacedWriter{ResponseWriter: w, control: control, stalled: func() { l.metrics.stalled.WithLabelValues().Inc() }}
		defer answer.close()
		// For whoever is not known yet; watches have other deadlines later.
		answer.setDeadlines(time.Now().Add(l.cfg.RequestTimeout.Duration + timeoutGrace))
		ctx := context.WithValue(r.Context(), answerKey{}, answer)
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), r.WithContext(ctx))
	})
}

type answerKey struct{}

// answerTo is the answer to a request; nil if it does not come from a network.
func answerTo(r *http.Request) *pacedWriter {
	answer, _ := r.Context().Value(answerKey{}).(*pacedWriter)
	return answer
}

func headerSize(r *http.Request) int {
	size := len(r.RequestURI)
	for key, values := range r.Header {
		for _, value := range values {
			size += len(key) + len(value)
		}
	}
	return size
}

// pacedWriter ends an answer of which the client takes nothing. As every
// http.ResponseWriter, it is for one goroutine at a time.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stalled func()

	timer *time.Timer
	// mu guards what follows, and that control is used within the request only:
	// a handler may go on after its request has timed out.
	mu      sync.Mutex
	writing bool
	closed  bool
}

// setDeadlines ends reading and writing at this time; zero is never. Not every
// connection can have deadlines; then it is as without.
func (p *pacedWriter) setDeadlines(deadline time.Time) {
	p.whileOpen(func() {
		_ = p.control.SetReadDeadline(deadline)
		_ = p.control.SetWriteDeadline(deadline)
	})
}

// setReadDeadline ends reading the body at this time.
func (p *pacedWriter) setReadDeadline(deadline time.Time) {
	p.whileOpen(func() { _ = p.control.SetReadDeadline(deadline) })
}

func (p *pacedWriter) whileOpen(use func()) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		use()
	}
}

// close comes at the end of the request: what is left in buffers goes now.
func (p *pacedWriter) close() {
	p.whileOpen(func() {
		p.closed = true
		_ = p.control.SetWriteDeadline(time.Now().Add(answerStall))
	})
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write implements io.Writer.
func (p *pacedWriter) Write(data []byte) (n int, err error) {
	for {
		piece := data[n:min(len(data), n+answerPiece)]
		p.begin()
		written, err := p.ResponseWriter.Write(piece)
		p.end()
		n += written
		if err != nil || n == len(data) {
			return n, err
		}
	}
}

// Flush implements http.Flusher.
func (p *pacedWriter) Flush() {
	flusher, can := p.ResponseWriter.(http.Flusher)
	if !can {
		return
	}
	p.begin()
	defer p.end()
	flusher.Flush()
}

func (p *pacedWriter) begin() {
	p.mu.Lock()
	p.writing = true
	p.mu.Unlock()
	if p.timer == nil {
		p.timer = time.AfterFunc(answerStall, p.abort)
	} else {
		p.timer.Reset(answerStall)
	}
}

func (p *pacedWriter) end() {
	p.timer.Stop()
	p.mu.Lock()
	p.writing = false
	p.mu.Unlock()
}

// abort has the Write that is under way fail: a deadline in the past resets the
// stream of HTTP/2, and ends the connection of HTTP/1.1.
func (p *pacedWriter) abort() {
	p.whileOpen(func() {
		if p.writing {
			p.stalled()
			_ = p.control.SetWriteDeadline(time.Unix(1, 0))
		}
	})
}
