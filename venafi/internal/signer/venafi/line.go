package venafi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/issuing/signer/outbound"
)

// line carries the calls of one attempt. vcert takes no context, shows whole
// answers in its errors and types few of them: a line ends calls with the attempt,
// lets only the error texts of a server's API through, and remembers how the last
// call ended.
type line struct {
	ctx     context.Context
	session *session
	product Product

	mu sync.Mutex // guards what follows: calls can run in the background
	// account, once known, is the answer to the call with which a SaaS client finds its
	// account.
	account []byte
	last    callResult
	// bodies are the answers, which vcert shows in some errors.
	bodies []string
}

// callResult is how the last call of a line ended.
type callResult struct {
	status     int
	retryAfter time.Duration
	// err is why there was no answer.
	err error
	// refused is why no call was made.
	refused error
	// failed is set if the server reports that the certificate will not be issued.
	failed bool
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if answer := l.known(r); answer != nil {
		return answer, nil
	}
	if err := l.permit(r); err != nil {
		l.set(callResult{refused: err}, nil)
		return nil, err
	}
	ctx := l.ctx
	if isOrder(r) {
		// If the answer to an order is lost, the certificate is never retrieved, and its key
		// cannot be used again.
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, l.session.timeout)
	defer cancel()
	response, err := l.session.transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		l.set(callResult{err: err}, nil)
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, outbound.MaxBody+1))
	switch {
	case err != nil:
		err = fmt.Errorf("reading the answer: %w", err)
	case len(body) > outbound.MaxBody:
		err = fmt.Errorf("the answer is larger than %d bytes", outbound.MaxBody)
	}
	if err != nil {
		l.set(callResult{err: err}, nil)
		return nil, err
	}
	return l.finish(r, response, body)
}

// finish notes an answer, and returns what of it is passed on.
func (l *line) finish(r *http.Request, response *http.Response, body []byte) (*http.Response, error) {
	result := callResult{status: response.StatusCode, retryAfter: outbound.RetryAfter(response.Header, l.session.clock.Now())}
	shown := body
	switch {
	case !succeeded(result.status):
		klog.FromContext(l.ctx).V(1).Info("A Certificate Manager server has answered with an error", "path", r.URL.Path,
			"status", response.Status, "body", outbound.Cut(outbound.Hide(string(body), l.session.secrets()), outbound.MaxLogged))
		shown = errorFields(body)
		result.failed = stuck(r, response, body)
	case isPing(r):
		shown = nil
	case !isContents(r) && !json.Valid(body):
		err := fmt.Errorf("the answer of %s to %s %s is not JSON", r.URL.Host, r.Method, r.URL.Path)
		l.set(callResult{err: err}, nil)
		return nil, err
	}
	l.set(result, shown)
	if succeeded(result.status) && isAccount(r) {
		l.mu.Lock()
		l.account = body
		l.mu.Unlock()
	}
	response.Body = io.NopCloser(bytes.NewReader(shown))
	response.ContentLength = int64(len(shown))
	return response, nil
}

func succeeded(status int) bool { return status >= 200 && status < 300 }

func (l *line) set(result callResult, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = result
	if text := strings.TrimSpace(string(body)); succeeded(result.status) && len(text) > 4 {
		l.bodies = append(l.bodies, text)
	}
}

func (l *line) result() callResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// known returns the answer to a call if that is known in advance.
func (l *line) known(r *http.Request) *http.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.account == nil || !isAccount(r) {
		return nil
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r,
		Body: io.NopCloser(bytes.NewReader(l.account)), ContentLength: int64(len(l.account)),
	}
}

// permit refuses calls that no issuer needs. For the template alias Default, vcert creates a
// missing application; only the operators of the server should do so.
func (l *line) permit(r *http.Request) error {
	path := r.URL.Path
	switch {
	case r.URL.Scheme != "https":
		return fmt.Errorf("%s is not reached by https://, which would show the credentials", r.URL.Host)
	case l.product == Cloud && strings.HasSuffix(path, "/certificateissuingtemplates"), // it prepares the creation of an application
		l.product != TPP && r.Method == http.MethodPost && strings.HasSuffix(path, "/applications"):
		return errors.New("the application in the zone does not exist: create it on the server, or correct spec.venafi.zone of the issuer")
	}
	return nil
}

func isOrder(r *http.Request) bool {
	return r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/vedsdk/certificates/request") || strings.HasSuffix(r.URL.Path, "/certificaterequests"))
}

func isRetrieval(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/vedsdk/certificates/retrieve")
}

func isPing(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/vedsdk/")
}

func isAccount(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/useraccounts")
}

// isContents reports whether a call is for a certificate in PEM.
func isContents(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/contents")
}

// stuck reports whether a server has given up on a certificate. TPP reports that with a
// status that other servers use when they are down.
func stuck(r *http.Request, response *http.Response, body []byte) bool {
	var says struct{ Stage *int }
	return isRetrieval(r) && response.StatusCode == http.StatusInternalServerError &&
		(strings.Contains(response.Status, "has encountered an error while processing") || json.Unmarshal(body, &says) == nil && says.Stage != nil)
}

// errorFields returns the error fields that the APIs of the products define, from an answer
// that reports an error.
func errorFields(body []byte) []byte {
	type entry struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	var says struct {
		Error, ErrorDetails, Status string `json:",omitempty"` // TPP
		Stage                       int    `json:",omitempty"`

		OAuth       string  `json:"error,omitempty"` // RFC 6749 section 5.2
		Description string  `json:"error_description,omitempty"`
		Errors      []entry `json:"errors,omitempty"` // SaaS and NGTS
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return []byte("{}")
	}
	for name, value := range map[string]any{ // a field of another type counts as none
		"Error": &says.Error, "ErrorDetails": &says.ErrorDetails, "Status": &says.Status, "Stage": &says.Stage,
		"error": &says.OAuth, "error_description": &says.Description, "errors": &says.Errors,
	} {
		_ = json.Unmarshal(fields[name], value)
	}
	for _, text := range []*string{&says.Error, &says.ErrorDetails, &says.Status, &says.OAuth, &says.Description} {
		*text = outbound.Cut(*text, outbound.MaxText)
	}
	says.Errors = says.Errors[:min(len(says.Errors), 8)]
	kept, err := json.Marshal(says)
	if err != nil {
		return []byte("{}")
	}
	return kept
}

// text returns the text of an error of vcert for users.
func (l *line) text(err error) string {
	text := err.Error()
	l.mu.Lock()
	for _, body := range l.bodies {
		text = strings.ReplaceAll(text, body, "(not shown)")
	}
	l.mu.Unlock()
	return outbound.Cut(strings.TrimSpace(outbound.Hide(text, l.session.secrets())), outbound.MaxText)
}

// verdict returns the error for an attempt that has failed with err.
func (l *line) verdict(err error) error {
	result := l.result()
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*InitError)), errors.As(err, new(*PendingError)), errors.As(err, new(*UnavailableError)):
		return err
	case result.refused == nil && !result.failed && (result.err != nil || unavailable(result.status)):
		return &UnavailableError{
			Err: errors.New(l.text(err)), RetryAfter: result.retryAfter, abandoned: errors.Is(l.ctx.Err(), context.Canceled),
		}
	case result.status == http.StatusUnauthorized:
		return &InitError{Err: errors.New(l.text(err)), Refused: true}
	}
	return errors.New(l.text(err))
}

// unavailable reports whether a status does not concern the call itself.
func unavailable(status int) bool {
	return status >= 500 || status >= 300 && status < 400 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// failedLogin returns the error for credentials that could not be verified.
func (l *line) failedLogin(err error) error {
	result := l.result()
	down := result.refused == nil && (result.err != nil || unavailable(result.status))
	return &InitError{Err: errors.New(l.text(err)), Refused: !down, silent: down && !errors.Is(l.ctx.Err(), context.Canceled)}
}
