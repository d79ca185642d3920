package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// waiting is the one watch that all requesters share: it hands each the
// certificate that it waits for. Safe for concurrent use.
type waiting struct {
	stop   func()
	failed chan error // has room for the one error that ends the watch

	mu       sync.Mutex
	expected map[string]chan []byte // by the name of the request
}

// startWaiting returns when the watch stands, from now on.
func startWaiting(ctx context.Context, client *requesterClient) (*waiting, error) {
	ctx, cancel := context.WithCancel(ctx)
	response, err := client.open(ctx, http.MethodGet, csrs+"?watch=true", nil)
	if err == nil && response.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(response.Body)
		response.Body.Close()
		err = refusal(response.StatusCode, answer)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching: %w", err)
	}
	w := &waiting{stop: cancel, failed: make(chan error, 1), expected: map[string]chan []byte{}}
	go func() {
		defer response.Body.Close()
		w.failed <- w.read(response.Body)
	}()
	return w, nil
}

// expect returns where the certificate of a request will arrive.
func (w *waiting) expect(name string) <-chan []byte {
	arrival := make(chan []byte, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expected[name] = arrival
	return arrival
}

// maxEvent is far more than any event of a watch.
const maxEvent = 1 << 20

// read hands out certificates until the watch ends.
func (w *waiting) read(body io.ReadCloser) error {
	frames := protobuf.LengthDelimitedFramer.NewFrameReader(body)
	buffer := make([]byte, maxEvent)
	for {
		n, err := frames.Read(buffer)
		if errors.Is(err, io.EOF) {
			return errors.New("the server has ended the watch")
		}
		if err != nil {
			return err
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal(buffer[:n]); err != nil {
			return fmt.Errorf("decoding an event: %w", err)
		}
		if err := w.see(event); err != nil {
			return err
		}
	}
}

func (w *waiting) see(event metav1.WatchEvent) error {
	switch watch.EventType(event.Type) {
	case watch.Modified:
	case watch.Error:
		return refusal(http.StatusInternalServerError, event.Object.Raw)
	default:
		return nil
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	if _, _, err := codec.Decode(event.Object.Raw, nil, csr); err != nil {
		return fmt.Errorf("decoding a request: %w", err)
	}
	if len(csr.Status.Certificate) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if arrival, waits := w.expected[csr.Name]; waits {
		delete(w.expected, csr.Name)
		arrival <- csr.Status.Certificate
	}
	return nil
}
