package acme

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// answer is a successful answer of a server.
type answer struct {
	header http.Header
	body   []byte
	url    string
	at     time.Time
}

// How many bytes of answers are read. Objects and problems take several times
// that in memory.
const (
	maxCertificate = 16 << 20
	maxObject      = 2 << 20
	maxProblem     = 256 << 10
)

// maxBadNonces is how many times a request is repeated with another nonce.
const maxBadNonces = 5

// message is a request that is signed with the key of the account.
type message struct {
	action action
	url    string
	// payload is nil for a POST-as-GET.
	payload any
	// accept, if not empty, is the media type of the answer.
	accept string
	// byKey is set if the account is not known at the server yet: the message then
	// contains the public key.
	byKey bool
	// class is the class of the request for limits; empty means limitRequest.
	class limitClass
	// names are the sorted identifiers of a new order.
	names []string
}

// post signs and sends a message, when the limits of the account allow it.
func (c *Client) post(ctx context.Context, m message) (answer, error) {
	if m.class == "" {
		m.class = limitRequest
	}
	if err := c.server.checkURL(m.url); err != nil {
		return answer{}, err
	}
	_, _, limits := c.identity()
	release, err := limits.enter(ctx, c.pool, m)
	if err != nil {
		return answer{}, err
	}
	defer release()
	got, err := c.send(ctx, limits, m)
	if _, refused := problemIn(err); refused && m.class == limitNewOrder {
		limits.observe(func(b *budgets) { b.refused(m) })
	}
	return got, err
}

// send signs and sends a message. Only a refused nonce makes it repeat one.
func (c *Client) send(ctx context.Context, limits *limits, m message) (answer, error) {
	signer, account, _ := c.identity()
	switch {
	case m.byKey:
		account = ""
	case account == "":
		return answer{}, errors.New("the URL of the ACME account is not known")
	default:
		signer = limits.current(signer, account, c.pool.Clock.Now())
	}
	got, err := c.postOnce(ctx, signer, account, m)
	for range maxBadNonces {
		if !refusesNonce(err) {
			break
		}
		got, err = c.postOnce(ctx, signer, account, m)
	}
	return got, limits.heed(c.pool, m, err)
}

func (c *Client) postOnce(ctx context.Context, signer *jwsSigner, account string, m message) (answer, error) {
	nonce, err := c.nonce(ctx)
	if err != nil {
		return answer{}, err
	}
	signed, err := signer.sign(m.payload, m.url, account, nonce)
	if err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(signed)
	if err != nil {
		return answer{}, fmt.Errorf("encoding a message: %w", err)
	}
	got, err := c.do(ctx, m.action, http.MethodPost, m.url, body, m.accept)
	if refusesNonce(err) {
		c.server.dropNonces() // those of one age are refused together
	}
	c.server.keepNonce(got.header)
	return got, err
}

func refusesNonce(err error) bool {
	problem, ok := problemIn(err)
	return ok && problem.HasType(rfc8555.ProblemBadNonce)
}

// get reads something that needs no signature.
func (c *Client) get(ctx context.Context, a action, url string) (answer, error) {
	_, _, limits := c.identity()
	m := message{action: a, class: limitRequest}
	if err := limits.check(c.pool, m); err != nil {
		return answer{}, err
	}
	got, err := c.do(ctx, a, http.MethodGet, url, nil, "")
	return got, limits.heed(c.pool, m, err)
}

// do sends a request. Its error is a *rfc8555.Problem if the server has sent an
// answer that is not a success; the answer then has the headers.
func (c *Client) do(ctx context.Context, a action, method, url string, body []byte, accept string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("User-Agent", c.pool.UserAgent)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/jose+json")
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	start := c.pool.Clock.Now()
	if err := c.server.silence.enter(c.server.url, start); err != nil {
		return answer{}, err
	}
	resp, err := c.server.http.Do(req)
	now := c.pool.Clock.Now()
	c.pool.metrics.observe(a, req, resp, now.Sub(start))
	c.server.silence.leave(err, now.Sub(start), now)
	if err != nil {
		return answer{}, &transportError{withoutAnswer(err)} // has the method and the URL
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	return readAnswer(resp, maxBody(a, resp), now)
}

// maxBody returns how much of an answer is read, in bytes.
func maxBody(a action, resp *http.Response) int64 {
	switch {
	case !succeeded(resp):
		return maxProblem
	case a == actionCertificate:
		return maxCertificate
	}
	return maxObject
}

func succeeded(resp *http.Response) bool { return resp.StatusCode >= 200 && resp.StatusCode <= 299 }

func readAnswer(resp *http.Response, most int64, now time.Time) (answer, error) {
	got := answer{header: resp.Header, url: resp.Request.URL.String(), at: now}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case !succeeded(resp):
		return got, problemOf(resp, body, now)
	case err != nil:
		return answer{}, fmt.Errorf("reading the answer of %s: %w", got.url, err)
	case int64(len(body)) > most:
		return answer{}, fmt.Errorf("the answer of %s is larger than %d MiB", got.url, most>>20)
	}
	got.body = body
	return got, nil
}

// read decodes the JSON of an answer. Its error does not show the answer.
func (a answer) read(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("the answer of %s (%s) is not the JSON of an ACME server", a.url, mediaType(a.header))
	}
	return nil
}
