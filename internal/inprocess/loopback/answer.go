package loopback

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// answer is the http.ResponseWriter of one request. Like net/http's, it is for
// one goroutine at a time.
type answer struct {
	header http.Header
	gone   <-chan struct{} // closed when the client is gone

	once sync.Once
	code int
	sent http.Header // the header when it was sent

	handedOver
	body    bytes.Buffer  // of a whole answer
	pipe    *pipe         // of a stream, otherwise nil
	started chan struct{} // closed when a stream's header is sent
}

func (t *Transport) newAnswer(ctx context.Context, exchange *Exchange) *answer {
	w := &answer{header: http.Header{}, gone: ctx.Done()}
	if exchange != nil {
		w.objects = t.Objects
	}
	return w
}

func (w *answer) Header() http.Header { return w.header }

func (w *answer) WriteHeader(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		w.begin(code, w.sent, w.pipe != nil)
		if w.started != nil {
			close(w.started)
		}
	})
}

func (w *answer) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.any {
		body, err := w.take(data, w.gone)
		if err == nil {
			_, err = w.append(body)
		}
		return len(data), err
	}
	return w.append(data)
}

// append adds data to the body.
func (w *answer) append(data []byte) (int, error) {
	if w.pipe != nil {
		return w.pipe.Write(data)
	}
	return w.body.Write(data)
}

// Flush implements http.Flusher.
func (w *answer) Flush() { w.WriteHeader(http.StatusOK) }

// CloseNotify implements http.CloseNotifier, the interface that the library looks for in
// writers that can stream.
func (w *answer) CloseNotify() <-chan bool {
	notify := make(chan bool, 1)
	go func() {
		<-w.gone
		notify <- true
	}()
	return notify
}

func (w *answer) response(to *http.Request, body io.ReadCloser, length int64) *http.Response {
	w.WriteHeader(http.StatusOK) // unless it has
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: w.sent, Body: body, ContentLength: length,
		Request: to,
	}
}

// maxUnread is how much a stream holds for a reader that is behind, before its
// writer has to wait: about as much as a TCP connection would.
const maxUnread = 1 << 20

// pipe is the body of a streamed answer.
type pipe struct {
	closing func() // notifies the handler that the reader is gone

	mu      sync.Mutex
	changed sync.Cond
	unread  bytes.Buffer
	err     error // the end, after the unread data
	closed  bool  // by the reader
}

func newPipe() *pipe {
	p := &pipe{}
	p.changed.L = &p.mu
	return p
}

func (p *pipe) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.unread.Len() > maxUnread && p.err == nil && !p.closed {
		p.changed.Wait()
	}
	if p.err != nil || p.closed {
		return 0, io.ErrClosedPipe
	}
	p.unread.Write(data)
	p.changed.Broadcast()
	return len(data), nil
}

func (p *pipe) Read(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.unread.Len() == 0 && p.err == nil && !p.closed {
		p.changed.Wait()
	}
	switch {
	case p.closed:
		return 0, io.ErrClosedPipe
	case p.unread.Len() == 0:
		return 0, p.err
	}
	defer p.changed.Broadcast()
	return p.unread.Read(data)
}

// finish ends the stream with err, after the unread data. Only the first call has an effect.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.changed.Broadcast()
}

// Close implements io.Closer for the reader.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.changed.Broadcast()
	p.mu.Unlock()
	p.closing()
	return nil
}
