// Package restcall makes HTTP calls to the APIs of DNS providers.
package restcall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
)

const (
	// maxAnswer is the maximum size of an answer, in bytes.
	maxAnswer = 1 << 20
	// maxErrorAnswer is how much is read of the answer to a call that failed, in
	// bytes.
	maxErrorAnswer = 64 << 10
	// defaultTimeout is the maximum time of a call.
	defaultTimeout = 30 * time.Second
	// userAgent identifies certplane in the logs of providers.
	userAgent = "certplane"
)

// Config configures a Client.
type Config struct {
	// HTTP makes the calls. Redirects are not followed: headers with credentials
	// belong to one host.
	HTTP *http.Client
	// Now returns the present time, for dates in Retry-After.
	Now func() time.Time
	// Timeout is the maximum time of one call; default 30 s.
	Timeout time.Duration
	// Authorize adds the credentials to a request. It is nil for calls without.
	Authorize func(request *http.Request, body []byte) error
	// Explain reads the error of an answer in the provider's format. It is nil
	// for APIs whose errors are only statuses.
	Explain func(status int, body []byte) Fault
	// Secrets are values that must not appear in errors.
	Secrets []string
}

// Fault is the error of an API in the provider's words.
type Fault struct {
	Code    string
	Message string
	// Temporary is set if the call can succeed later. Statuses 408, 429 and 5xx are
	// temporary without it.
	Temporary bool
}

// Client makes calls to one API. It is safe for concurrent use.
type Client struct {
	config Config
	http   http.Client

	mu      sync.Mutex
	secrets []string // guarded by mu
}

// New returns a client.
func New(config Config) *Client {
	config.Timeout = cmp.Or(config.Timeout, defaultTimeout)
	client := &Client{config: config, http: *config.HTTP}
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.http.Jar = nil
	client.Hide(config.Secrets...)
	return client
}

// Hide adds values that must not appear in errors. Bearer tokens in requests are
// hidden without it.
func (c *Client) Hide(secrets ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, secret := range secrets {
		if len(secret) >= minSecret && !slices.Contains(c.secrets, secret) {
			c.secrets = append(c.secrets, secret)
		}
	}
}

// hidden returns the secrets, the longest first: one can be part of another.
func (c *Client) hidden() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(slices.Values(c.secrets), func(a, b string) int { return len(b) - len(a) })
}

// Request is one call.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
}

// Response is an answer with a status of 2xx.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Call makes a call. The error for an answer that is not 2xx has a *StatusError in its
// chain; a *provider.TemporaryError means that the call can succeed later.
func (c *Client) Call(ctx context.Context, call Request) (*Response, error) {
	request, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	timeout, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	response, err := c.http.Do(request.WithContext(timeout))
	if err != nil {
		return nil, c.noAnswer(ctx, request.URL, err)
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, c.refused(response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.noAnswer(ctx, request.URL, err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s is larger than %d bytes", request.URL.Host, maxAnswer)
	}
	return &Response{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

func (c *Client) request(ctx context.Context, call Request) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, call.Method, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", stripURL(err))
	}
	if call.Body == nil {
		request.Body, request.ContentLength = http.NoBody, 0
	}
	request.Header.Set("User-Agent", userAgent)
	for key, values := range call.Header {
		request.Header[key] = values
	}
	if c.config.Authorize != nil {
		if err := c.config.Authorize(request, call.Body); err != nil {
			return nil, err
		}
	}
	if token, isToken := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer "); isToken {
		c.Hide(token)
	}
	return request, nil
}

// JSON makes a call with a JSON document, or with none if in is nil, and reads
// the JSON of the answer into out, unless that is nil.
func (c *Client) JSON(ctx context.Context, method, address string, header http.Header, in, out any) (*Response, error) {
	call := Request{Method: method, URL: address, Header: http.Header{"Accept": {"application/json"}}}
	for key, values := range header {
		call.Header[key] = values
	}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encoding the request: %w", err)
		}
		call.Body = body
		call.Header.Set("Content-Type", "application/json")
	}
	response, err := c.Call(ctx, call)
	if err != nil || out == nil {
		return response, err
	}
	// The errors of encoding/json quote the answer.
	if json.Unmarshal(response.Body, out) != nil {
		return nil, unreadable(address, "JSON")
	}
	return response, nil
}

// Form posts a form, and reads the JSON of the answer into out.
func (c *Client) Form(ctx context.Context, address string, form url.Values, out any) error {
	response, err := c.Call(ctx, formRequest(address, form))
	if err != nil {
		return err
	}
	if json.Unmarshal(response.Body, out) != nil {
		return unreadable(address, "JSON")
	}
	return nil
}

func formRequest(address string, form url.Values) Request {
	return Request{
		Method: http.MethodPost, URL: address, Body: []byte(form.Encode()),
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}, "Accept": {"application/json"}},
	}
}

// XML makes a call and reads the XML of the answer into out.
func (c *Client) XML(ctx context.Context, call Request, out any) error {
	response, err := c.Call(ctx, call)
	if err != nil {
		return err
	}
	if xml.Unmarshal(response.Body, out) != nil {
		return unreadable(call.URL, "XML")
	}
	return nil
}

// FormXML posts a form, and reads the XML of the answer into out.
func (c *Client) FormXML(ctx context.Context, address string, form url.Values, out any) error {
	return c.XML(ctx, formRequest(address, form), out)
}

// unreadable is the error for an answer in another format, such as the page of
// a proxy.
func unreadable(address, format string) error {
	host := ""
	if parsed, err := url.Parse(address); err == nil {
		host = parsed.Host
	}
	return fmt.Errorf("reading the answer of %s: not the expected %s", host, format)
}

// noAnswer returns the error of a call without a complete answer.
func (c *Client) noAnswer(ctx context.Context, address *url.URL, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &provider.TemporaryError{Err: fmt.Errorf("calling %s: no answer in time: %w", address.Host, ctx.Err())}
	case ctx.Err() != nil:
		return fmt.Errorf("calling %s: %w", address.Host, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s", c.config.Timeout)
	}
	cause := stripURL(err)
	return &provider.TemporaryError{Err: &quotedError{text: fmt.Sprintf("calling %s: %s", address.Host, c.clean(cause.Error(), maxMessage)), err: cause}}
}

// quotedError holds the cleaned text of an error, and the error.
type quotedError struct {
	text string
	err  error
}

func (e *quotedError) Error() string { return e.text }
func (e *quotedError) Unwrap() error { return e.err }

// stripURL returns the cause of the errors of net/http, which quote the URL.
func stripURL(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

// Path joins segments to a path that begins with "/". No segment can change
// which resource is meant.
func Path(segments ...string) string {
	var path strings.Builder
	for _, segment := range segments {
		path.WriteByte('/')
		if escaped := url.PathEscape(segment); strings.Trim(escaped, ".") != "" {
			path.WriteString(escaped)
			continue
		}
		path.WriteString(strings.ReplaceAll(segment, ".", "%2E"))
	}
	return path.String()
}
