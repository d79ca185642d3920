// Package contact notes whether the server answers a client.
package contact

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// State is how the last calls went.
type State struct {
	// URL is the server's; empty before there is a client for it.
	URL string
	// LastContact is when the server answered last; zero if it never has.
	LastContact time.Time
	// Error is why the last call came to nothing: there was no answer, or the
	// server does not accept who asks. Empty if the call was answered.
	Error string
	// Since is when the first call after LastContact came to nothing.
	Since time.Time
	// Refused reports that the server does not accept who asks.
	Refused bool
}

// Tracker looks at all calls of the clients that it is put into. It is safe for
// concurrent use.
type Tracker struct {
	clock clock.PassiveClock
	news  chan struct{}

	mu    sync.Mutex
	state State
}

// New returns a tracker that has seen nothing yet.
func New(clock clock.PassiveClock) *Tracker {
	return &Tracker{clock: clock, news: make(chan struct{}, 1)}
}

// News has a value when the server begins to answer, or not to, or for another
// reason not to.
func (t *Tracker) News() <-chan struct{} { return t.news }

// tell is called with mu held.
func (t *Tracker) tell() {
	select {
	case t.news <- struct{}{}:
	default: // nobody has seen the last one yet
	}
}

// State returns how the last calls went.
func (t *Tracker) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// Watch puts the tracker into the clients that are made of config.
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

// RoundTrip notes what became of a call.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	switch {
	case errors.Is(r.Context().Err(), context.Canceled): // nobody waits for the answer any more
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

// describe leaves out what is another with each call, such as our own port.
func describe(err error) string {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		same := *op
		same.Source = nil
		return same.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "there was no answer in time"
	}
	return err.Error()
}
