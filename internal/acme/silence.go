package acme

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

const (
	// slowAfter is how long a request without an answer may last until it counts as one
	// that kept a worker busy.
	slowAfter = 10 * time.Second
	// silentAfter is how many of those, in a row, make a server count as silent.
	silentAfter = 3
	// silentFor is how long a silent server is not asked.
	silentFor = time.Minute
)

// silence keeps a server that does not answer from blocking all workers: it is asked once
// a minute, by one request.
type silence struct {
	mu    sync.Mutex
	slow  int // how many requests in a row got no answer
	until time.Time
}

// enter returns an error if the server is not to be asked now.
func (s *silence) enter(server string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.slow < silentAfter:
		return nil
	case now.Before(s.until):
		return fmt.Errorf("the last %d requests to %s got no answer; it is asked again after %s", silentAfter, server, s.until.UTC().Format(time.RFC3339))
	}
	s.until = now.Add(requestTimeout) // for all others
	return nil
}

// leave takes note of the end of a request.
func (s *silence) leave(err error, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.slow = 0
	case errors.Is(err, context.Canceled):
		if s.slow >= silentAfter {
			s.until = now // another one may ask
		}
	case took >= slowAfter || s.slow >= silentAfter:
		s.slow = min(s.slow+1, silentAfter)
		s.until = now.Add(silentFor)
	}
}

// withoutAnswer returns an error whose text quotes nothing of an answer that is not HTTP,
// such as the banner of another service.
func withoutAnswer(err error) error {
	var request *url.Error
	var header textproto.ProtocolError
	if !errors.As(err, &request) {
		return err
	}
	text := request.Err.Error()
	for _, broken := range []string{"malformed", "bad Content-Length", "unsupported transfer encoding", "too many transfer encodings", "invalid"} {
		if errors.As(err, &header) || strings.Contains(text, broken) && !errors.As(request.Err, new(net.Error)) {
			return &url.Error{Op: request.Op, URL: request.URL, Err: errNotHTTP}
		}
	}
	return err
}

var errNotHTTP = errors.New("the answer is not HTTP")

// transportError is the failure of a request that got no answer. Its text is
// bounded: parts of it can come from the other side.
type transportError struct{ err error }

func (e *transportError) Error() string { return rfc8555.ShortLine(e.err.Error(), 1000) }

func (e *transportError) Unwrap() error { return e.err }
