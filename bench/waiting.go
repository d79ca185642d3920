package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// waiting is the one watch that all requesters share: it passes each
// certificate to the requester that waits for it. It is safe for concurrent
// use.
type waiting struct {
	client *requesterClient
	// open starts the watch, unless it was started before.
	open   func() error
	stop   func()
	failed chan error // has room for the one error that ends the watch
	// resumed counts how often the server ended the watch. Servers do that to
	// watches that fall behind, and clients continue from the last version seen.
	resumed atomic.Int64
	// inAnswer counts certificates for which no watch was needed.
	inAnswer atomic.Int64

	mu       sync.Mutex
	expected map[string]chan []byte // by the name of the request
}

// newWaiting returns what waits for the certificates that are issued from now
// on.
func newWaiting(ctx context.Context, client *requesterClient) (*waiting, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiting{client: client, stop: cancel, failed: make(chan error, 1), expected: map[string]chan []byte{}}
	version, err := w.now(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	w.open = sync.OnceValue(func() error {
		events, err := w.watch(ctx, version)
		if err != nil {
			return err
		}
		go func() { w.failed <- w.follow(ctx, version, events) }()
		return nil
	})
	return w, nil
}

// now returns the current version of the list of requests.
func (w *waiting) now(ctx context.Context) (string, error) {
	code, _, answer, err := w.client.roundTrip(ctx, http.MethodGet, csrs+"?limit=1", nil)
	if err != nil {
		return "", fmt.Errorf("listing: %w", err)
	}
	if code != http.StatusOK {
		return "", fmt.Errorf("listing: %w", refusal(code, answer))
	}
	list := &certificatesv1.CertificateSigningRequestList{}
	_, _, err = codec.Decode(answer, nil, list)
	return list.ResourceVersion, err
}

// watch opens the watch after the given version.
func (w *waiting) watch(ctx context.Context, version string) (io.ReadCloser, error) {
	response, err := w.client.open(ctx, http.MethodGet, csrs+"?watch=true&resourceVersion="+version, nil)
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		answer, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("watching: %w", refusal(response.StatusCode, answer))
	}
	return response.Body, nil
}

// follow reads events, and opens the watch again when the server ends it.
func (w *waiting) follow(ctx context.Context, version string, events io.ReadCloser) error {
	for {
		seen, err := w.read(events)
		events.Close()
		version = cmp.Or(seen, version)
		if err != nil || ctx.Err() != nil {
			return errors.Join(errors.New("the watch has ended"), err)
		}
		w.resumed.Add(1)
		if events, err = w.watch(ctx, version); err != nil {
			return err
		}
	}
}

// expect returns the channel on which the certificate of a request will arrive.
func (w *waiting) expect(name string) <-chan []byte {
	arrival := make(chan []byte, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expected[name] = arrival
	return arrival
}

func (w *waiting) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.expected, name)
}

// maxEvent is far more than any event of a watch.
const maxEvent = 1 << 20

// read passes on certificates until the server ends the watch, and returns the
// last version that it has seen.
func (w *waiting) read(events io.ReadCloser) (version string, err error) {
	frames := protobuf.LengthDelimitedFramer.NewFrameReader(events)
	buffer := make([]byte, maxEvent)
	for {
		n, err := frames.Read(buffer)
		if errors.Is(err, io.EOF) {
			return version, nil
		}
		if err != nil {
			return version, err
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal(buffer[:n]); err != nil {
			return version, fmt.Errorf("decoding an event: %w", err)
		}
		switch watch.EventType(event.Type) {
		case watch.Error:
			return version, refusal(http.StatusInternalServerError, event.Object.Raw)
		case watch.Added, watch.Modified:
			if version, err = w.see(event.Object.Raw); err != nil {
				return version, err
			}
		}
	}
}

// see passes on the certificate of a request, if it has one.
func (w *waiting) see(object []byte) (version string, err error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if _, _, err := codec.Decode(object, nil, csr); err != nil {
		return "", fmt.Errorf("decoding a request: %w", err)
	}
	if len(csr.Status.Certificate) == 0 {
		return csr.ResourceVersion, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if arrival, waits := w.expected[csr.Name]; waits {
		delete(w.expected, csr.Name)
		arrival <- csr.Status.Certificate
	}
	return csr.ResourceVersion, nil
}
