package apiserver

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/certplane/certplane/internal/inprocess/objectpass"
	"github.com/certplane/certplane/internal/tenant"
)

const (
	// answerStall is how long a client may read nothing of its response.
	answerStall = 10 * time.Second
	// connectionStall is the same for a connection, which may have many
	// responses.
	connectionStall = 30 * time.Second
	// answerPiece is how much of a response must be sent within answerStall.
	answerPiece = 16 << 10
	// timeoutGrace is additional time in which the response to a request that
	// has timed out can be sent.
	timeoutGrace = time.Second
	// maxHeader bounds the header of a request that is kept while it is
	// answered. The library reads up to 1 MiB; tokens and label selectors have
	// some KiB.
	maxHeader = 128 << 10
)

// withDeadlines makes sure that no client keeps a request open by sending its
// body slowly or by not reading the response. The library's filter stops
// waiting for the handler, but cannot end a Write that waits for the client.
func (l *limiter) withDeadlines(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isInside(r.Context()) {
			handler.ServeHTTP(w, withWish(r))
			return
		}
		objectpass.Refuse(r.Header)
		control := http.NewResponseController(w)
		if headerSize(r) > maxHeader {
			l.metrics.refused.WithLabelValues("header", tenant.ClassAnonymous).Inc()
			_ = control.SetWriteDeadline(time.Now().Add(answerStall))
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge) // no body for the client to read
			return
		}
		answer := &pacedWriter{ResponseWriter: w, control: control, stalled: func() { l.metrics.stalled.WithLabelValues().Inc() }}
		defer answer.close()
		// Until the user is authenticated; watches get other deadlines later.
		answer.setDeadlines(time.Now().Add(l.cfg.RequestTimeout.Duration + timeoutGrace))
		ctx := context.WithValue(r.Context(), answerKey{}, answer)
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), r.WithContext(ctx))
	})
}

type answerKey struct{}

// answerTo returns the response writer of a request, or nil if the request does
// not come from a network.
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

// pacedWriter ends a response whose client does not read. Like every http.ResponseWriter, it
// must be used by one goroutine at a time.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stalled func()
	// refused is set by an answer that lists the formats of the API.
	refused bool
	// gate is passed before each event of a watch; nil for other responses.
	gate *gate

	timer *time.Timer
	// mu guards the fields below. It also makes sure that control is used only
	// during the request: a handler may continue after its request has timed
	// out.
	mu      sync.Mutex
	writing bool
	closed  bool
}

// setDeadlines sets the deadline for reading and writing; zero means none. Not
// every connection supports deadlines; then there is none.
func (p *pacedWriter) setDeadlines(deadline time.Time) {
	p.whileOpen(func() {
		_ = p.control.SetReadDeadline(deadline)
		_ = p.control.SetWriteDeadline(deadline)
	})
}

// gate lets the events of watches take turns with everything else. One change can be an
// event for ten thousand watches: if all of them are ready to run at once, each step of the
// next write waits behind them, until the store gives up.
type gate struct {
	mu     sync.Mutex
	passed int
}

// eventsPerTurn is how many events are sent before everything else that is ready to run.
// With 10,000 watches on two cores, writes take a third of their time without turns, and the
// last event arrives at the same time.
const eventsPerTurn = 128

// pass waits for a turn. It is not held while the event is sent: a client may read slowly.
func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passed++; g.passed%eventsPerTurn == 0 {
		runtime.Gosched()
	}
}

// setReadDeadline sets the deadline for reading the body.
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

// close is called at the end of the request: it flushes the buffers.
func (p *pacedWriter) close() {
	p.whileOpen(func() {
		p.closed = true
		_ = p.control.SetWriteDeadline(time.Now().Add(answerStall))
	})
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *pacedWriter) WriteHeader(code int) {
	p.refused = code == http.StatusNotAcceptable
	p.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (p *pacedWriter) Write(data []byte) (int, error) {
	if p.gate != nil {
		p.gate.pass()
	}
	if !p.refused {
		return p.write(data)
	}
	// The library writes this answer past the formats of the API.
	if _, err := p.write(objectpass.Unlist(data)); err != nil {
		return 0, err
	}
	return len(data), nil
}

func (p *pacedWriter) write(data []byte) (n int, err error) {
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

// abort makes the active Write fail: a deadline in the past resets the stream
// of HTTP/2, and closes the connection of HTTP/1.1.
func (p *pacedWriter) abort() {
	p.whileOpen(func() {
		if p.writing {
			p.stalled()
			_ = p.control.SetWriteDeadline(time.Unix(1, 0))
		}
	})
}
