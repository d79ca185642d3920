package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/issuing/signer/outbound"
)

const (
	userAgent = "certplane"

	namespaceHeader = "X-Vault-Namespace"
)

// The operations, as in metrics.
const (
	opLogin  = "login"
	opRenew  = "renew"
	opRevoke = "revoke" // of a token
	opSign   = "sign"
	opHealth = "health"
	opSTS    = "sts"

	opRevokeCertificate = "revoke_certificate"
)

// errTooLarge means that an answer is not read any further.
var errTooLarge = fmt.Errorf("the answer is larger than %d bytes", outbound.MaxBody)

// call is one call of the API.
type call struct {
	operation, method, path string
	// namespace is the namespace in Vault; the health of a server has none.
	namespace string
	token     credential
	// body is sent as JSON; nil means none.
	body any
	// sent are the credentials in the body.
	sent []credential
}

// do makes a call and returns the body of a proper answer. Its errors are
// *AnswerError, *connectionError, and others about a call that was not made or
// an answer that is too large.
func (s *server) do(ctx context.Context, c call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := s.clock.Now()
	body, code, err := s.exchange(ctx, c)
	s.metrics.called(c.operation, code, s.clock.Since(start))
	return body, err
}

// exchange makes a call, and follows at most one redirect. code is for metrics.
func (s *server) exchange(ctx context.Context, c call) (body []byte, code string, err error) {
	encoded, err := encode(c.body)
	if err != nil {
		return nil, codeNone, err
	}
	at := s.address(c.path)
	for redirects := 0; ; redirects++ {
		response, err := s.send(ctx, c, at, encoded)
		if err != nil {
			return nil, codeOf(err), err
		}
		if redirects > 0 || !isRedirect(response.StatusCode) {
			defer response.Body.Close()
			body, err := s.read(ctx, c, at, response)
			return body, strconv.Itoa(response.StatusCode), err
		}
		response.Body.Close()
		if at, err = s.target(at, response); err != nil {
			return nil, strconv.Itoa(response.StatusCode), &connectionError{err}
		}
	}
}

func isRedirect(status int) bool {
	return status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
}

func encode(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, &accessError{fmt.Errorf("encoding the body: %w", err)}
	}
	return encoded, nil
}

func (s *server) send(ctx context.Context, c call, at *url.URL, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, c.method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &accessError{fmt.Errorf("making the request: %w", err)}
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("X-Vault-Request", "true")
	if c.token != "" {
		request.Header.Set("X-Vault-Token", string(c.token))
	}
	if c.namespace != "" {
		request.Header.Set(namespaceHeader, c.namespace)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, &connectionError{err}
	}
	return response, nil
}

// read takes the body from an answer.
func (s *server) read(ctx context.Context, c call, at *url.URL, response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, outbound.MaxBody+1))
	if err == nil {
		err = ctx.Err() // a call that is cancelled can look like the end of the body
	}
	switch {
	case response.StatusCode >= 300 || response.StatusCode < 200:
		return nil, s.refused(ctx, c, at, response, body[:min(len(body), outbound.MaxBody)])
	case err != nil:
		return nil, &connectionError{fmt.Errorf("reading the answer of %s: %w", at.Redacted(), err)}
	case len(body) > outbound.MaxBody:
		return nil, errTooLarge
	}
	return body, nil
}

// refused returns the error for an unsuccessful response. It logs the body: for a server
// that is not Vault, the log is the only place where it appears.
func (s *server) refused(ctx context.Context, c call, at *url.URL, response *http.Response, body []byte) error {
	sent := append([]credential{c.token}, c.sent...)
	klog.FromContext(ctx).V(1).Info("A Vault server answered with an error", "operation", c.operation,
		"status", response.StatusCode, "body", outbound.Cut(outbound.Hide(string(body), sent), outbound.MaxLogged))
	lines, ok := readErrors(body)
	e := &AnswerError{
		Method: c.method, URL: at.Redacted(), Namespace: shownNamespace(response.Header, c.namespace), Status: response.StatusCode, Foreign: !ok,
		retryAfter: outbound.RetryAfter(response.Header, s.clock.Now()),
	}
	for _, line := range lines[:min(len(lines), 32)] {
		e.Errors = append(e.Errors, outbound.Cut(outbound.Hide(line, sent), outbound.MaxLogged))
	}
	s.pause(e)
	return e
}

// shownNamespace returns the namespace for texts: the one of the call, if the
// server says that the answer is from there. Vault's own clients show it likewise.
func shownNamespace(header http.Header, sent string) string {
	answered := header.Get(namespaceHeader)
	if strings.Trim(answered, "/") != strings.Trim(sent, "/") {
		return ""
	}
	return answered
}

// pause leaves the server alone for as long as it asks for.
func (s *server) pause(e *AnswerError) {
	if e.retryAfter == 0 || e.Status != http.StatusTooManyRequests && e.Status != http.StatusServiceUnavailable {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pausedUntil = s.clock.Now().Add(e.retryAfter)
}
