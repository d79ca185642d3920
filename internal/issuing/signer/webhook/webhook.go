// Package webhook signs by calling an HTTPS endpoint.
//
// The requests and answers are defined in package api/signing/v1alpha1. Every
// answer is checked: a certificate that differs from what was requested never
// reaches the request.
package webhook

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/backoff"
	"github.com/certplane/certplane/internal/process/httpsclient"
)

// invalidPause is when to call again after an answer that violates the
// protocol. Each one may have cost a certificate.
const invalidPause = 5 * time.Minute

// pauses are the approximate pauses before the retries of a call.
var pauses = backoff.Backoff{First: 250 * time.Millisecond, Most: 8 * time.Second}

// Config contains the dependencies for signing at an endpoint.
type Config struct {
	// Settings must be valid.
	Settings Settings
	// Limits returns the operator's limits for a signer. The maximum duration
	// in Settings, if set, takes precedence over that in the limits.
	Limits func(signerName string) signer.Limits
	// Credentials, if not nil, are used instead of the files in Settings.
	Credentials *Credentials
	// Honoured returns the CAs for clients of the API server, if they are
	// known.
	Honoured signer.Honoured
	// Clock is the clock to use; nil means the real one.
	Clock clock.Clock
	// Metrics, if not nil, is where the endpoint's metrics are registered.
	// Endpoints that share it share the metrics.
	Metrics prometheus.Registerer
}

// New returns the signer behind an endpoint. Unusable files are reported here
// and not with the first request.
func New(cfg Config) (signer.Sign, error) {
	e, err := newEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return e.sign, nil
}

func newEndpoint(cfg Config) (*endpoint, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	cfg.Settings = cfg.Settings.withDefaults()
	client, err := newClient(cfg.Settings, cfg.Credentials, func(ctx context.Context, failure error) {
		if failure != nil {
			klog.FromContext(ctx).Error(failure, "Cannot read the files for a signer's endpoint; using their previous content", "signer", cfg.Settings.SignerName)
		}
	})
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(cfg.Metrics, cfg.Settings.SignerName)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of signer %s: %w", cfg.Settings.SignerName, err)
	}
	return &endpoint{settings: cfg.Settings, limits: cfg.Limits, honoured: cfg.Honoured, clock: cfg.Clock, client: client, metrics: metrics}, nil
}

// endpoint is an HTTPS endpoint that signs. It is safe for concurrent use.
type endpoint struct {
	settings Settings
	limits   func(signerName string) signer.Limits
	honoured signer.Honoured
	clock    clock.Clock
	client   *httpsclient.Client
	metrics  *metrics

	mu      sync.Mutex // guards what follows
	breaker breaker.Breaker
}

// sign implements signer.Sign. A bad request is refused even while the endpoint
// is down. What it has signed is shown to the policies by their Guard.
func (e *endpoint) sign(ctx context.Context, req request.Request, _ signer.Permission, now time.Time) (*signer.Issued, error) {
	want, err := e.examine(req)
	if err != nil {
		return nil, err
	}
	if err := req.CheckVerbatim(); err != nil {
		return nil, signer.Permanent(signer.ReasonInvalidRequest, err)
	}
	return e.callUntilVerdict(ctx, newRequest(req, *want.Life), want, now)
}

// callUntilVerdict repeats calls until a retry is useless.
func (e *endpoint) callUntilVerdict(ctx context.Context, request v1alpha1.SigningRequest, want wanted, now time.Time) (*signer.Issued, error) {
	for call := 0; ; call++ {
		issued, err := e.attempt(ctx, request, want, now)
		var f *failure
		if !errors.As(err, &f) {
			return issued, err
		}
		if !f.retry || call == *e.settings.Retries || !e.pause(ctx, call) {
			return nil, e.pending(f)
		}
	}
}

// examine checks what depends only on the request.
func (e *endpoint) examine(req request.Request) (wanted, error) {
	profile, err := signer.Lookup(req.SignerName)
	ours := err == nil
	if !ours {
		profile = foreign
	}
	limits := e.limits(req.SignerName)
	limits.MaxDuration = cmp.Or(e.settings.MaxDuration.Duration, limits.MaxDuration)
	profile = profile.With(limits)
	parsed, usages, err := profile.Examine(req)
	if err != nil {
		return wanted{}, err
	}
	want := wanted{uid: req.UID, honoured: e.honoured, Wanted: pki.Wanted{
		Key: parsed.PublicKey, CA: usages.Key&x509.KeyUsageCertSign != 0, Usages: &usages, Life: new(profile.Lifetime.Duration(req.Duration)),
	}}
	if ours {
		want.Names = parsed.CertificateRequest
	}
	return want, nil
}

// foreign is the profile of unknown signers: the endpoint decides about their
// requirements.
var foreign = signer.Profile{
	Check:    func(*x509.CertificateRequest, []string) error { return nil },
	Lifetime: pki.Lifetime{Min: 10 * time.Minute},
}

func newRequest(req request.Request, limit time.Duration) v1alpha1.SigningRequest {
	asked := v1alpha1.SigningRequest{
		APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.RequestKind,
		UID: req.UID, Name: req.Name, SignerName: req.SignerName,
		Request:              string(req.PEM),
		MaxExpirationSeconds: int64(limit / time.Second),
		Requester:            v1alpha1.Requester(req.Requester),
		Usages:               req.Usages,
	}
	if req.Duration != nil {
		asked.ExpirationSeconds = new(int64(*req.Duration / time.Second))
	}
	return asked
}

// attempt makes one call, if the circuit breaker permits it, and checks the
// answer. Its errors are verdicts or *failure.
func (e *endpoint) attempt(ctx context.Context, request v1alpha1.SigningRequest, want wanted, now time.Time) (issued *signer.Issued, err error) {
	p, err := e.enterBreaker()
	if err != nil {
		return nil, err
	}
	about := breaker.Abandoned // unless it gets that far
	defer func() { e.leaveBreaker(ctx, p, about, want.uid, err) }()
	start := e.clock.Now()
	issued, err = e.callOnce(ctx, request, want, now)
	var result string
	about, result = classify(err)
	e.metrics.called(result, e.clock.Since(start))
	return issued, err
}

// callOnce makes one call and checks the answer.
func (e *endpoint) callOnce(ctx context.Context, request v1alpha1.SigningRequest, want wanted, now time.Time) (*signer.Issued, error) {
	body, err := e.call(ctx, request)
	if err != nil {
		return nil, err
	}
	issued, err := want.verdict(body, now)
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	if err != nil && !errors.As(err, &permanent) && !errors.As(err, &pending) {
		err = invalid(err)
	}
	return issued, err
}

// classify returns the result of a call for the circuit breaker and for
// metrics.
func classify(err error) (breaker.Health, string) {
	var f *failure
	switch {
	case err == nil:
		return breaker.Answered, resultIssued
	case errors.As(err, &f):
		return f.health, f.result
	case errors.As(err, new(*signer.PermanentError)):
		return breaker.Answered, resultFailed
	default:
		return breaker.Answered, resultPending
	}
}

// pending returns the verdict for a failed call.
func (e *endpoint) pending(f *failure) error {
	reason, message := signer.ReasonUnavailable, "the signer cannot sign at present; it keeps trying"
	if f.result == resultInvalid {
		reason, message = signer.ReasonInvalidAnswer, "the signer returned an invalid answer; it keeps trying"
	}
	err := fmt.Errorf("calling %s: %w", e.settings.URL, f.err)
	return &signer.PendingError{
		Reason: reason, Message: message, Err: err,
		RetryAfter: f.retryAfter, Note: message + " (" + presentable(err.Error()) + ")",
	}
}

// pause waits before the next retry of a call, unless there would be no time
// left for it. The pause is random so that requests that failed together are
// not retried together.
func (e *endpoint) pause(ctx context.Context, call int) bool {
	wait := pauses.After(call + 1)
	wait = wait/2 + backoff.Random(wait)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait+e.settings.Timeout.Duration {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-e.clock.After(wait):
		return true
	}
}

// enterBreaker asks the circuit breaker for a pass. Its error is a verdict.
func (e *endpoint) enterBreaker() (breaker.Pass, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, wait, ok := e.breaker.Enter(e.clock.Now())
	if ok {
		return p, nil
	}
	e.metrics.spared()
	return breaker.Pass{}, e.pending(&failure{
		err: errors.New("calls are suspended for a while because the endpoint did not answer several requests"),
		// Random, so that not all requests are retried at the same moment.
		retryAfter: wait + backoff.Random(breaker.OpenFor/5),
	})
}

func (e *endpoint) leaveBreaker(ctx context.Context, p breaker.Pass, about breaker.Health, uid string, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.breaker.Open()
	e.breaker.Leave(p, about, uid, e.clock.Now())
	is := e.breaker.Open()
	e.metrics.circuit(was, is)
	logger := klog.FromContext(ctx)
	switch {
	case is && !was:
		logger.Error(why, "A signer's endpoint does not answer; calls to it are suspended for a while", "signer", e.settings.SignerName, "url", e.settings.URL)
	case was && !is:
		logger.Info("A signer's endpoint answers again", "signer", e.settings.SignerName, "url", e.settings.URL)
	}
}

// credentials returns the client and the token for the next call. If the files
// cannot be used, their previous content stays in use.
func (e *endpoint) credentials(ctx context.Context) (*http.Client, string) {
	httpClient, token, err := e.client.Current(ctx)
	if err != nil {
		e.metrics.stale()
	}
	return httpClient, token
}
