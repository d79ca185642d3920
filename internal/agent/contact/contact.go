// Package contact records whether the server answers a client.
package contact

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// State is the outcome of the last calls.
type State struct {
	// URL is the server's URL; empty before a client for it exists.
	URL string
	// LastContact is when the server last answered; zero if it never has.
	LastContact time.Time
	// Error is why the last call failed: the server did not answer, or does not
	// accept the client's credentials. It is empty if the call was answered.
	Error string
	// Since is when the first call after LastContact failed.
	Since time.Time
	// Refused reports that the server does not accept the client's credentials.
	Refused bool
}

// Tracker observes all calls of the clients that it is installed in. It is safe
// for concurrent use.
type Tracker struct {
	clock clock.PassiveClock
	news  chan struct{}

	mu    sync.Mutex
	state State
}

// New returns a tracker that has seen no calls yet.
func New(clock clock.PassiveClock) *Tracker {
	return &Tracker{clock: clock, news: make(chan struct{}, 1)}
}

// News returns a channel that receives a value when the server begins to
// answer, stops answering, or does not answer for a new reason.
func (t *Tracker) News() <-chan struct{} { return t.news }

// tell sends to news. It is called with mu held.
func (t *Tracker) tell() {
	select {
	case t.news <- struct{}{}:
	default: // the last value has not been received yet
	}
}

// State returns the outcome of the last calls.
func (t *Tracker) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// Watch installs the tracker in the clients that are created from config.
func (t *Tracker) Watch(config *rest.Config) {
	t.mu.Lock()
	t.state.URL = config.Host
	t.mu.Unlock()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{t, next} })
}

type transport struct {
	tracker *Tracker
	next    http.RoundTripper
}

// RoundTrip records the outcome of a call.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	switch {
	case errors.Is(r.Context().Err(), context.Canceled): // the caller no longer waits for the answer
	case err != nil:
		t.tracker.failed(describe(err), false)
	case answer.StatusCode == http.StatusUnauthorized:
		t.tracker.failed("it does not accept the credentials of this host (401 Unauthorized)", true)
	case answer.StatusCode >= http.StatusBadGateway && answer.StatusCode <= http.StatusGatewayTimeout:
		t.tracker.failed(fmt.Sprintf("it answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode)), false)
	default:
		t.tracker.answered()
	}
	return answer, err
}

// WrappedRoundTripper is for programs that look for the transport below.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *Tracker) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.LastContact.IsZero() || t.state.Error != "" {
		t.tell()
	}
	t.state.LastContact, t.state.Error, t.state.Since, t.state.Refused = t.clock.Now(), "", time.Time{}, false
}

func (t *Tracker) failed(problem string, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Error == "" {
		t.state.Since = t.clock.Now()
	}
	if t.state.Error != problem {
		t.tell()
	}
	t.state.Error, t.state.Refused = problem, refused
}

// describe leaves out what differs with each call, such as our own port.
func describe(err error) string {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		same := *op
		same.Source = nil
		return same.Error()
	}
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Sprintf("the server's certificate is valid from %s to %s, which does not include the current time of this host's clock",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "there was no answer in time"
	}
	return err.Error()
}
