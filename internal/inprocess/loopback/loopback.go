// Package loopback carries HTTP requests to a handler of the same process: the
// handler sees a request as if it came from a network.
package loopback

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/inprocess/objectpass"
	"github.com/certplane/certplane/internal/inprocess/readcache"
)

// remoteAddress is the client's address in requests.
const remoteAddress = "127.0.0.1:0"

// Transport is an http.RoundTripper. Until Serve is called, its requests wait, as on a port
// whose server has not started. It is safe for concurrent use.
//
// A watch (a request with the parameter "watch") receives its answer while the handler
// writes it; any other request receives it when the handler has returned. A handler must
// return soon after the request's context has ended.
type Transport struct {
	// Objects, if not nil, are those that the handler can pass without encoding
	// them.
	Objects *objectpass.Objects
	// Recent, if not nil, are objects that clients have read or written last.
	Recent *readcache.Objects

	handler http.Handler // set when serving is closed
	serving chan struct{}
}

// New returns a transport whose handler is set later, by Serve.
func New(objects *objectpass.Objects) *Transport {
	return &Transport{Objects: objects, serving: make(chan struct{})}
}

// Serve passes all requests to handler. It must be called only once.
func (t *Transport) Serve(handler http.Handler) {
	t.handler = handler
	close(t.serving)
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(sent *http.Request) (*http.Response, error) {
	select {
	case <-t.serving:
	case <-sent.Context().Done():
		closeBody(sent)
		return nil, sent.Context().Err()
	}
	if isWatch(sent) {
		return t.stream(sent)
	}
	return t.whole(sent)
}

// serverContext returns the context for a handler. It passes on only that the
// client's context has ended. The client's values, for instance of a request
// that the client itself serves, would not come over a network either.
func serverContext(client context.Context, ended func()) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	forget := context.AfterFunc(client, func() { cancel(); ended() })
	return ctx, func() { forget(); cancel() }
}

func isWatch(r *http.Request) bool {
	if r.URL.RawQuery == "" {
		return false
	}
	watch, err := strconv.ParseBool(r.URL.Query().Get("watch"))
	return err == nil && watch
}

// whole answers a request when its handler has returned.
func (t *Transport) whole(sent *http.Request) (*http.Response, error) {
	ctx, end := serverContext(sent.Context(), func() {})
	defer end()
	exchange := t.exchangeOf(sent)
	w := t.newAnswer(ctx, exchange)
	if err := w.serve(ctx, t.handler, sent, exchange); err != nil {
		return nil, err
	}
	if err := sent.Context().Err(); err != nil {
		return nil, err
	}
	if exchange != nil {
		exchange.Received = w.object
	}
	return w.response(sent, io.NopCloser(&w.body), int64(w.body.Len())), nil
}

// stream answers a request when its handler sends the header, and then passes on the bytes
// that the handler writes.
func (t *Transport) stream(sent *http.Request) (*http.Response, error) {
	pipe := newPipe()
	ctx, end := serverContext(sent.Context(), func() { pipe.finish(sent.Context().Err()) })
	pipe.closing = end
	exchange := t.exchangeOf(sent)
	w := t.newAnswer(ctx, exchange)
	w.pipe, w.started = pipe, make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		defer end()
		err := w.serve(ctx, t.handler, sent, exchange)
		if w.events != nil {
			close(w.events)
		}
		ended <- err
		pipe.finish(cmp.Or(err, io.EOF))
	}()
	select {
	case <-w.started:
	case err := <-ended:
		if err != nil {
			return nil, err
		}
	case <-sent.Context().Done():
		return nil, sent.Context().Err()
	}
	response := w.response(sent, pipe, -1)
	if w.events != nil {
		exchange.Events = w.events
	}
	return response, nil
}

// received returns the request sent as its handler sees it.
func received(ctx context.Context, sent *http.Request) *http.Request {
	r := sent.Clone(ctx) // handlers take credentials out of the header
	r.RequestURI = r.URL.RequestURI()
	r.RemoteAddr = remoteAddress
	if r.Host == "" {
		r.Host = r.URL.Host
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.GetBody, r.Close = nil, false
	if r.Body == nil {
		r.Body = http.NoBody
	}
	return r
}

// serve runs the handler. A panic ends the answer, not the process, as in
// net/http.
func (w *answer) serve(ctx context.Context, handler http.Handler, sent *http.Request, exchange *Exchange) (err error) {
	defer closeBody(sent)
	r := received(ctx, sent)
	if exchange != nil {
		defer exchanged(r, exchange, w.objects)()
	}
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				klog.FromContext(ctx).Error(nil, "A request within the process has panicked", "panic", p)
			}
			err = fmt.Errorf("the handler broke off: %w", io.ErrUnexpectedEOF)
		}
	}()
	handler.ServeHTTP(w, r)
	return nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}
