package loopback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/certplane/certplane/internal/inprocess/objectpass"
)

// Exchange contains the objects that a client and a handler exchange without encoding them.
// The body of the answer is then an empty JSON object. Errors are always encoded.
type Exchange struct {
	// Send is the object of the request, in place of its body. It is copied for
	// the handler. If it is nil, the request has its own body.
	Send runtime.Object
	// Received is the object of the answer; nil if the handler has encoded it.
	// Parts of it may belong to the handler: it must not be changed.
	Received runtime.Object
	// Events are the events of a watch, until it ends; nil if the handler encodes them.
	// Nothing behind a pointer of their objects may be changed.
	Events <-chan watch.Event
}

type exchangeKey struct{}

// WithExchange returns a context for one request, of a client that understands
// objects.
func WithExchange(ctx context.Context, exchange *Exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, exchange)
}

// exchangeOf returns the exchange of the request sent, nil if it has none.
func (t *Transport) exchangeOf(sent *http.Request) *Exchange {
	if t.Objects == nil {
		return nil
	}
	exchange, _ := sent.Context().Value(exchangeKey{}).(*Exchange)
	if exchange != nil {
		exchange.Received, exchange.Events = nil, nil // of a former attempt
	}
	return exchange
}

// exchanged returns the request r with the object that exchange sends, and with
// the wish for objects. The caller must call end when the handler has returned.
func exchanged(r *http.Request, exchange *Exchange, objects *objectpass.Objects) (end func()) {
	r.Header.Set("Accept", strings.TrimSuffix(objectpass.MediaType+","+r.Header.Get("Accept"), ","))
	if exchange.Send == nil {
		return func() {}
	}
	handle := objects.Put(objects.Copy(exchange.Send))
	r.Header.Set("Content-Type", objectpass.MediaType)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(handle[:])), objectpass.HandleSize
	return func() { objects.Drop(handle) }
}

// maxEvents is how many events a stream holds for a reader that is behind, before
// its writer has to wait.
const maxEvents = 1000

// handedOver is the part of an answer that consists of objects.
type handedOver struct {
	objects *objectpass.Objects // nil if the client wants none
	any     bool                // the handler has chosen to pass objects
	object  runtime.Object
	events  chan watch.Event
}

// begin is called before the header is sent.
func (h *handedOver) begin(code int, header http.Header, streamed bool) {
	if h.objects == nil || !strings.HasPrefix(header.Get("Content-Type"), objectpass.MediaType) {
		return
	}
	h.any = true
	header.Set("Content-Type", "application/json")
	if streamed && code == http.StatusOK {
		h.events = make(chan watch.Event, maxEvents)
	}
}

// errUnknownHandle means that a handler has written something else than a handle.
var errUnknownHandle = errors.New("the handler has passed no object")

// take takes the object that data stands for. It returns the bytes to write to the body
// instead.
func (h *handedOver) take(data []byte, gone <-chan struct{}) (body []byte, err error) {
	if h.events != nil {
		event, ok := h.objects.TakeEvent(data)
		if !ok {
			return nil, errUnknownHandle
		}
		select {
		case h.events <- event:
			return nil, nil
		case <-gone:
			return nil, io.ErrClosedPipe
		}
	}
	obj, ok := h.objects.Take(data)
	if !ok {
		return nil, errUnknownHandle
	}
	if status, is := obj.(*metav1.Status); is {
		encoded := *status
		encoded.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		return json.Marshal(encoded)
	}
	h.object = obj
	return []byte("{}"), nil
}
