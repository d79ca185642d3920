package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/process/httpsclient"
)

const (
	// userAgent identifies certplane in the logs of endpoints.
	userAgent = "certplane"
	// maxPause is the longest delay that an overloaded endpoint can request.
	maxPause = time.Hour
)

// The results of calls, as in metrics.
const (
	resultIssued      = "issued"
	resultPending     = "pending"
	resultFailed      = "failed"
	resultInvalid     = "invalid"     // an answer that breaks the protocol
	resultRejected    = "rejected"    // HTTP 3xx and 4xx
	resultOverloaded  = "overloaded"  // HTTP 429 and 503
	resultBroken      = "broken"      // other HTTP 5xx
	resultUnreachable = "unreachable" // no connection, or no trusted one
	resultTimeout     = "timeout"
	resultAbandoned   = "abandoned" // the caller gave up
)

// failure is a call without a readable answer. It does not quote the endpoint, which could
// echo our token.
type failure struct {
	result string
	err    error
	// health is the state of the endpoint according to the call.
	health breaker.Health
	// retry is set if an immediate retry may succeed.
	retry bool
	// retryAfter is the delay that the endpoint requests, or 0.
	retryAfter time.Duration
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// call makes one call and returns the body of a proper answer. Its errors are
// *failure.
func (e *endpoint) call(ctx context.Context, request v1alpha1.SigningRequest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.settings.Timeout.Duration)
	defer cancel()
	request.Deadline, _ = ctx.Deadline()
	request.Deadline = request.Deadline.UTC()
	body, err := json.Marshal(request)
	if err != nil {
		return nil, &failure{result: resultAbandoned, health: breaker.Abandoned, err: fmt.Errorf("encoding the request: %w", err)}
	}
	httpClient, token := e.credentials(ctx)
	httpRequest, err := newHTTPRequest(ctx, e.settings.URL, token, body)
	if err != nil {
		return nil, &failure{result: resultAbandoned, health: breaker.Abandoned, err: err}
	}
	response, err := httpClient.Do(httpRequest)
	if err != nil {
		return nil, unreachable(err)
	}
	defer response.Body.Close()
	return read(response, e.clock.Now())
}

func newHTTPRequest(ctx context.Context, address, token string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	request.Header.Set("Content-Type", v1alpha1.ContentType)
	request.Header.Set("Accept", v1alpha1.ContentType)
	request.Header.Set("User-Agent", userAgent)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, nil
}

// read takes the answer from an HTTP response.
func read(response *http.Response, now time.Time) ([]byte, error) {
	if response.StatusCode != http.StatusOK {
		return nil, refused(response, now)
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != v1alpha1.ContentType {
		return nil, invalid(errors.New("content type must be " + v1alpha1.ContentType))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreachable(fmt.Errorf("reading the answer: %w", err))
	case len(body) > maxAnswer:
		return nil, invalid(fmt.Errorf("answer is larger than %d bytes", maxAnswer))
	}
	return body, nil
}

// tlsAlert is the Op of errors with which crypto/tls reports an alert from the
// other side.
const tlsAlert = "remote error"

// unreachable classifies the errors of connections. A timeout is not retried at
// once: more work does not make an endpoint faster. An untrusted certificate is
// not retried either.
func unreachable(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // without the URL, which the caller adds
	}
	f := &failure{result: resultUnreachable, health: breaker.Unanswered, err: err, retry: true}
	var untrusted *tls.CertificateVerificationError
	var network *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		f.result, f.health, f.retry = resultAbandoned, breaker.Abandoned, false
	case errors.Is(err, context.DeadlineExceeded):
		f.result, f.retry, f.err = resultTimeout, false, errors.New("no answer in time")
	case errors.As(err, &untrusted), errors.As(err, &network) && network.Op == tlsAlert:
		f.retry = false
	}
	return f
}

// invalid returns a failure for an answer that violates the protocol.
func invalid(err error) error {
	return &failure{result: resultInvalid, health: breaker.Answered, retryAfter: invalidPause, err: err}
}

// refused returns a failure for a status other than 200.
func refused(response *http.Response, now time.Time) error {
	status := response.StatusCode
	wait, _ := httpsclient.RetryAfter(response.Header, now, maxPause)
	f := &failure{result: resultRejected, health: breaker.Unanswered, retryAfter: wait}
	f.err = fmt.Errorf("HTTP status %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		f.result, f.retry = resultOverloaded, f.retryAfter == 0
	case status >= 500:
		f.result, f.retry = resultBroken, status != http.StatusNotImplemented
	case status == http.StatusRequestTimeout:
		f.retry = true
	case status < 300:
		return invalid(f.err)
	case status == http.StatusBadRequest, status == http.StatusConflict,
		status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		f.health = breaker.Answered // it refuses this request, but works
	}
	return f
}
