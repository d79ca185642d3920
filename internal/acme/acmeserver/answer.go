package acmeserver

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/backoff"
)

// answer is the part of a response that differs between resources.
type answer struct {
	status int
	// body is sent unchanged if media is set, otherwise as JSON. It can be nil.
	body     any
	media    string
	location string
	// links are further values of the header Link, after the directory.
	links      []string
	retryAfter time.Duration
	// nonce is the header Replay-Nonce of an answer to GET or HEAD.
	nonce string
	// cache is the header Cache-Control of answers without a nonce.
	cache string
}

// ok returns an answer with a JSON object.
func ok(body any) *answer { return &answer{status: http.StatusOK, body: body} }

func link(url, relation string) string { return "<" + url + `>;rel="` + relation + `"` }

// located is a problem with the URL of the conflicting resource.
type located struct {
	*rfc8555.Problem
	location string
}

// Unwrap returns the problem.
func (l *located) Unwrap() error { return l.Problem }

func problem(status int, kind, format string, args ...any) error {
	return rfc8555.NewProblem(status, kind, format, args...)
}

func malformed(format string, args ...any) error {
	return problem(http.StatusBadRequest, rfc8555.ProblemMalformed, format, args...)
}

// asError returns a problem as an error: nil if there is none.
func asError(p *rfc8555.Problem) error {
	if p == nil {
		return nil
	}
	return p
}

// Range of the random Retry-After when the server is unavailable.
const (
	soonest = 10 * time.Second
	latest  = 60 * time.Second
)

// unavailable is the answer when the client should try again in a while. Clients
// come back at different times.
func unavailable(now time.Time, why string) error {
	p := rfc8555.NewProblem(http.StatusServiceUnavailable, rfc8555.ProblemServerInternal, "%s: try again later", why)
	p.RetryAfter = now.Add(soonest + backoff.Random(latest-soonest))
	return p
}

// refusal returns the answer to a request that was not granted.
func (x *exchange) refusal(err error) *answer {
	p := x.problemOf(err)
	x.problem = p
	a := &answer{status: p.Status, body: p.Encode(), media: rfc8555.MediaTypeProblem}
	if at := new(located); errors.As(err, &at) {
		a.location = at.location
	}
	switch {
	case p.TermsOfService != "":
		a.links = append(a.links, link(p.TermsOfService, "terms-of-service"))
	case p.HasType(rfc8555.ProblemUserActionRequired) && p.Instance != "":
		a.links = append(a.links, link(p.Instance, "help"))
	}
	if !p.RetryAfter.IsZero() {
		a.retryAfter = max(p.RetryAfter.Sub(x.now), time.Second)
	}
	return a
}

// problemOf returns the problem that a client receives for an error. Internal causes
// appear only in the log.
func (x *exchange) problemOf(err error) *rfc8555.Problem {
	var p *rfc8555.Problem
	if errors.As(err, &p) {
		return p
	}
	log := klog.FromContext(x.ctx)
	busy := errors.Is(err, errBusy)
	switch {
	case busy:
		p = rfc8555.NewProblem(http.StatusServiceUnavailable, rfc8555.ProblemServerInternal, "%v: try again", err)
		p.RetryAfter = x.now.Add(time.Second)
		return p
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		p = rfc8555.NewProblem(http.StatusTooManyRequests, rfc8555.ProblemRateLimited, "the quota of the namespace is used up")
		p.RetryAfter = x.now.Add(time.Minute)
		return p
	case isFull(err):
		log.Info("The store has no room for an object of an ACME client", "resource", x.resourceName(), "cause", err.Error())
		errors.As(unavailable(x.now, "there is no room in the store"), &p)
		return p
	case isOutage(err):
		log.Error(err, "The ACME server cannot reach the API", "resource", x.resourceName())
		errors.As(unavailable(x.now, "the store cannot be reached"), &p)
		return p
	}
	reference := hex.EncodeToString(random(8))
	log.Error(err, "The ACME server has failed", "reference", reference, "resource", x.resourceName())
	return rfc8555.NewProblem(http.StatusInternalServerError, rfc8555.ProblemServerInternal, "the server has failed: an administrator finds the cause in the log by the reference %s", reference)
}

// isFull reports whether the store has no room, or the namespace has its share of it.
func isFull(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
}

// isOutage reports whether the API cannot be reached, perhaps temporarily. Requests that
// it refuses are a fault of this server.
func isOutage(err error) bool {
	var status apierrors.APIStatus
	var panicked *panicked
	switch {
	case errors.As(err, &panicked):
		return false
	case !errors.As(err, &status):
		return true // of the connection
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// send writes the answer with the headers that all have (RFC 8555 sections 6.5, 6.7
// and 7.1).
func (x *exchange) send(a *answer) {
	h := x.header
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Link, Replay-Nonce, Location, Retry-After")
	switch {
	case x.r.Method == http.MethodPost:
		h.Set("Replay-Nonce", x.nonces.Issue())
		h.Set("Cache-Control", "no-store")
	case a.cache != "":
		h.Set("Cache-Control", a.cache)
	default:
		h.Set("Cache-Control", "no-store")
	}
	if a.nonce != "" {
		h.Set("Replay-Nonce", a.nonce)
	}
	if x.endpoint != nil && (x.resource == nil || x.resource.name != "directory") {
		h.Add("Link", link(x.url("directory"), "index"))
	}
	for _, l := range a.links {
		h.Add("Link", l)
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((a.retryAfter+time.Second-1)/time.Second), 10))
	}
	body := a.encode(h)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if a.status == http.StatusNoContent {
		h.Del("Content-Length")
	}
	x.w.WriteHeader(a.status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body) // the client may be gone
	}
}

func (a *answer) encode(h http.Header) []byte {
	switch {
	case a.body == nil:
		return nil
	case a.media != "":
		h.Set("Content-Type", a.media)
		return a.body.([]byte)
	}
	h.Set("Content-Type", "application/json")
	body, err := json.Marshal(a.body)
	if err != nil {
		panic(err) // views can always be encoded
	}
	return body
}
