// Package vault signs by calling Vault servers, or OpenBao, whose API is the
// same.
//
// It keeps the tokens with which issuers have logged in, and lets no certificate
// pass that differs from what was requested.
package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/issuing/signer/outbound"
	"github.com/certplane/certplane/internal/process/backoff"
	"github.com/certplane/certplane/internal/process/notify"
)

// Config contains the dependencies of a Pool.
type Config struct {
	// Settings must be valid.
	Settings Settings
	// Clock is the clock to use; nil means the real one.
	Clock clock.WithTicker
	// Random spreads what would happen at one moment; nil means backoff.Random.
	Random backoff.Jitter
	// Metrics, if not nil, is where the metrics are registered.
	Metrics prometheus.Registerer
	// STS returns the address of AWS's token service in a region; nil means the
	// real one. Its server must be trusted by this host.
	STS func(region string) string
}

// Pool holds the connections to all Vault servers of a process and the tokens that they
// granted. One Pool serves all controllers: they share the tokens. It is safe for
// concurrent use.
type Pool struct {
	settings  Settings
	clock     clock.WithTicker
	random    backoff.Jitter
	metrics   *metrics
	sts       func(region string) string
	stsClient *http.Client
	changes   notify.List[Server]
	keeper

	servers serverCache
}

// New returns a Pool without connections. Start must run, or the tokens are not
// revoked in the end.
func New(cfg Config) (*Pool, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Random == nil {
		cfg.Random = backoff.Random
	}
	if cfg.STS == nil {
		cfg.STS = stsURL
	}
	counts, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of Vault servers: %w", err)
	}
	settings := cfg.Settings.withDefaults()
	// What STS gives belongs to the issuer, but it is this process that asks.
	transport, err := outbound.NewTransport(nil, settings.guard(true), &url.URL{Scheme: "https", Host: awsAudience})
	if err != nil {
		return nil, err
	}
	return &Pool{
		settings: settings, clock: cfg.Clock, random: cfg.Random, metrics: counts, sts: cfg.STS, stsClient: newClient(transport),
		keeper:  keeper{tokens: map[string]*kept{}, flights: map[string]*flight{}},
		servers: serverCache{all: map[[sha256.Size]byte]*cached{}, issuers: map[string]time.Time{}},
	}, nil
}

// Subscribe makes changed be called when a server stops answering, or answers
// again. It must return quickly.
func (p *Pool) Subscribe(changed func(Server)) (cancel func()) { return p.changes.Subscribe(changed) }

// NextCheck returns when to check an issuer again that is ready: after about five
// minutes.
func (p *Pool) NextCheck() time.Duration {
	const every = 5 * time.Minute
	return every - every/10 + p.random(every/5)
}

// Start removes unused tokens and servers until ctx ends, and then revokes all tokens. It
// implements manager.Runnable.
func (p *Pool) Start(ctx context.Context) error {
	ticker := p.clock.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.end()
			return nil
		case <-ticker.C():
			p.sweep(p.clock.Now())
		}
	}
}

// end revokes all tokens, and closes all connections.
func (p *Pool) end() {
	p.mu.Lock()
	p.ended = true
	all := p.tokens
	p.tokens = map[string]*kept{}
	p.metrics.tokens.Set(0)
	p.mu.Unlock()
	for _, k := range all {
		p.discard(k)
	}
	p.revoking.Wait()
	p.servers.closeAll()
	p.stsClient.CloseIdleConnections()
}

// sweep removes tokens and servers that were not used for a while, because their issuers
// were deleted.
func (p *Pool) sweep(now time.Time) {
	p.mu.Lock()
	for uid, k := range p.tokens {
		if now.Sub(k.touched) > idle {
			delete(p.tokens, uid)
			defer p.discard(k)
		}
	}
	p.metrics.tokens.Set(float64(len(p.tokens)))
	p.mu.Unlock()
	for _, label := range p.servers.sweep(now) {
		p.metrics.unavailable.DeleteLabelValues(label)
	}
}

// Verify checks that an issuer can log in, and that its server is ready. Its
// errors are *InitError about the former, and others about the latter.
func (p *Pool) Verify(ctx context.Context, i Issuer, access Access) error {
	return p.with(ctx, i, access, i.UID, func(m material, s session) error {
		if _, err := p.token(ctx, i, m, s); err != nil {
			return initFailure(err)
		}
		return s.server.health(ctx)
	})
}

// Sign lets the server of an issuer sign. Its errors are *InitError,
// *UnavailableError if the server cannot answer now, and others if it refuses or
// its answer cannot be read.
func (p *Pool) Sign(ctx context.Context, i Issuer, access Access, order Order) (*Bundle, error) {
	var bundle *Bundle
	err := p.with(ctx, i, access, order.ID, func(m material, s session) (err error) {
		bundle, err = p.sign(ctx, i, access, m, s, order)
		return err
	})
	if errors.As(err, new(*InitError)) || err == nil || !unavailable(err) {
		return bundle, err
	}
	return nil, asUnavailable(err)
}

func asUnavailable(err error) error {
	var known *UnavailableError
	if errors.As(err, &known) {
		return err
	}
	var answered *AnswerError
	e := &UnavailableError{Err: err}
	if errors.As(err, &answered) {
		e.RetryAfter = answered.retryAfter
	}
	return e
}

// initFailure returns the error of a login that failed or was impossible.
func initFailure(err error) error { return &InitError{err} }

// with reads what an issuer refers to, and lets try call its server.
func (p *Pool) with(ctx context.Context, i Issuer, access Access, id string, try func(material, session) error) error {
	m, err := p.gather(ctx, i, access)
	if err != nil {
		return err
	}
	at, err := p.server(m.connection)
	if err != nil {
		return failedInit(err)
	}
	err = at.attempt(id, func() error { return try(m, session{server: at, namespace: i.VaultNamespace}) })
	p.servers.seen(i.label(), p.clock.Now())
	if about, known := availability(err); known {
		p.metrics.unavailable.WithLabelValues(i.label()).Set(about)
	}
	return err
}

// availability is the value of the metric after an attempt.
func availability(err error) (value float64, known bool) {
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, new(*accessError)), errors.Is(err, context.Canceled):
		return 0, false
	case unavailable(err):
		return 1, true
	}
	return 0, true
}

// key identifies what a token was granted for: another version of the spec, or of
// a Secret, needs another one.
func (i Issuer) key(m material) string {
	return fmt.Sprintf("%s/%d/%s/%s", i.UID, i.Generation, i.SecretNamespace, m.versions)
}

// serverCache holds the servers that are in use.
type serverCache struct {
	mu  sync.Mutex // guards what follows
	all map[[sha256.Size]byte]*cached
	// issuers are the issuers with metrics, by their label, with the time of their last
	// use.
	issuers map[string]time.Time
}

type cached struct {
	server  *server
	touched time.Time
}

// maxServers limits how many servers have their connections kept.
const maxServers = 1000

// server returns the server of a connection.
func (p *Pool) server(c connection) (*server, error) {
	cache, hash := &p.servers, c.hash()
	cache.mu.Lock()
	defer cache.mu.Unlock()
	now := p.clock.Now()
	if known := cache.all[hash]; known != nil {
		known.touched = now
		return known.server, nil
	}
	made, err := p.newServer(c)
	if err != nil {
		return nil, err
	}
	if len(cache.all) >= maxServers {
		cache.evict()
	}
	cache.all[hash] = &cached{made, now}
	return made, nil
}

// evict removes the server that has not been used for the longest time. The
// caller must hold mu.
func (c *serverCache) evict() {
	var oldest [sha256.Size]byte
	for hash, one := range c.all {
		if known := c.all[oldest]; known == nil || one.touched.Before(known.touched) {
			oldest = hash
		}
	}
	c.all[oldest].server.close()
	delete(c.all, oldest)
}

func (c *serverCache) seen(issuer string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issuers[issuer] = now
}

// sweep removes the servers that were not used for a while, and returns their issuers.
func (c *serverCache) sweep(now time.Time) (gone []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for hash, one := range c.all {
		if now.Sub(one.touched) > idle {
			one.server.close()
			delete(c.all, hash)
		}
	}
	for label, last := range c.issuers {
		if now.Sub(last) > idle {
			delete(c.issuers, label)
			gone = append(gone, label)
		}
	}
	return gone
}

func (c *serverCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		one.server.close()
	}
}
