// Package venafi signs by calling the servers of CyberArk Certificate Manager,
// which was called Venafi before.
//
// The calls are made by vcert, the library of the servers' maker.
package venafi

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/issuing/signer/outbound"
	"github.com/certplane/certplane/internal/process/backoff"
)

const (
	// maxSessions limits how many issuers have their sessions kept.
	maxSessions = 64
	// idle is how long an unused session is kept: a ready issuer is checked more often.
	idle = 15 * time.Minute
	// userAgent names this program to servers.
	userAgent = "certplane"
)

// Config has the dependencies of a Pool.
type Config struct {
	// Timeout bounds one call; 0 means 10 seconds. Guard restricts the addresses that
	// issuers may use; some may use loopback addresses anyway.
	Timeout time.Duration
	Guard   outbound.Guard
	// Clock is the clock to use; nil means the real one.
	Clock clock.WithTicker
	// Random spreads what would happen at one moment; nil means backoff.Random.
	Random backoff.Jitter
	// Metrics, if not nil, is where the metrics are registered.
	Metrics prometheus.Registerer
}

// Pool has the connections to all servers of a process. One Pool serves all
// controllers. It is safe for concurrent use.
type Pool struct {
	timeout time.Duration
	guard   outbound.Guard
	clock   clock.WithTicker
	random  backoff.Jitter
	metrics *metrics
	connect func(target, *line) (connector, error)

	mu       sync.Mutex          // guards what follows
	sessions map[string]*session // by the UID of the issuer
	ended    bool
	closing  sync.WaitGroup // sessions that are being closed
}

// New returns a Pool without connections. Start must run, or tokens are not
// revoked in the end.
func New(cfg Config) (*Pool, error) { return newPool(cfg, newConnector) }

func newPool(cfg Config, connect func(target, *line) (connector, error)) (*Pool, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Random == nil {
		cfg.Random = backoff.Random
	}
	counts, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of Certificate Manager servers: %w", err)
	}
	return &Pool{
		timeout: cmp.Or(cfg.Timeout, 10*time.Second), guard: cfg.Guard, clock: cfg.Clock, random: cfg.Random, metrics: counts, connect: connect,
		sessions: map[string]*session{},
	}, nil
}

// NextCheck returns when to check an issuer again that is ready: after about five
// minutes.
func (p *Pool) NextCheck() time.Duration {
	const every = 5 * time.Minute
	return every - every/10 + p.random(every/5)
}

// Verify checks that a server accepts the credentials of an issuer, and that it
// answers. Its errors are *InitError about the former.
func (p *Pool) Verify(ctx context.Context, i Issuer, access Access) error {
	return p.with(ctx, i, access, i.UID, func(c connector, l *line, granted login) error {
		if !granted.fresh {
			if err := c.verify(granted.grant); err != nil {
				return l.failedLogin(err)
			}
		}
		return c.ping()
	})
}

// Request orders a certificate and returns the identifier for retrieving it, which the
// caller must store. Its errors are *InitError, *UnavailableError if the server cannot
// answer now, and others if it refuses.
func (p *Pool) Request(ctx context.Context, i Issuer, access Access, o Order) (id string, err error) {
	err = p.with(ctx, i, access, o.ID, func(c connector, _ *line, _ login) (err error) {
		id, err = c.request(o)
		return err
	})
	return id, err
}

// Retrieve returns a certificate with its issuers in PEM, in any order, without
// waiting for it. Its errors are *PendingError if there is none yet, and those of
// Request.
func (p *Pool) Retrieve(ctx context.Context, i Issuer, access Access, id string, o Order) (chain []byte, err error) {
	err = p.with(ctx, i, access, o.ID, func(c connector, _ *line, _ login) (err error) {
		chain, err = c.retrieve(id, o)
		return err
	})
	return chain, err
}

// with reads the objects that an issuer refers to, and calls try with a connector to its
// server.
func (p *Pool) with(ctx context.Context, i Issuer, access Access, id string, try func(connector, *line, login) error) error {
	m, err := gather(ctx, i, access)
	if err != nil {
		return err
	}
	s, err := p.session(i, m)
	if err != nil {
		return err
	}
	return s.attempt(ctx, id, try)
}

// session returns the session of an issuer. Another version of the spec or of a
// Secret needs another one. Its errors are *InitError.
func (p *Pool) session(i Issuer, m material) (*session, error) {
	key := fmt.Sprintf("%s/%d/%s/%s", i.UID, i.Generation, i.SecretNamespace, m.versions)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, &InitError{Err: context.Canceled}
	}
	now := p.clock.Now()
	known := p.sessions[i.UID]
	if known != nil && known.key == key {
		known.touched = now
		return known, nil
	}
	transport, err := p.newTransport(i, m)
	if err != nil {
		return nil, &InitError{Err: fmt.Errorf("error creating vcert client: %w", err)}
	}
	if known != nil {
		p.discard(i.UID)
	} else if len(p.sessions) >= maxSessions {
		p.discard(p.leastUsed())
	}
	s := &session{
		key: key, transport: transport, timeout: p.timeout, clock: p.clock, random: p.random, metrics: p.metrics,
		connect: p.connect, loggingIn: make(chan struct{}, 1), touched: now,
		target: target{Issuer: i, credentials: m.credentials, userAgent: userAgent, observe: p.observe},
	}
	p.sessions[i.UID] = s
	return s, nil
}

// observe measures a call.
func (p *Pool) observe(call string) (done func()) {
	start := p.clock.Now()
	return func() { p.metrics.calls.WithLabelValues(call).Observe(p.clock.Since(start).Seconds()) }
}

// leastUsed returns the UID of the session that has not been used for the longest
// time. The caller must hold mu.
func (p *Pool) leastUsed() string {
	least := ""
	for uid, s := range p.sessions {
		if known := p.sessions[least]; known == nil || s.touched.Before(known.touched) {
			least = uid
		}
	}
	return least
}

// discard closes a session in the background. The caller must hold mu.
func (p *Pool) discard(uid string) {
	s := p.sessions[uid]
	delete(p.sessions, uid)
	p.closing.Add(1)
	go func() {
		defer p.closing.Done()
		s.close()
	}()
}

// Start closes sessions that are no longer used, until ctx ends; then it closes all. It
// implements manager.Runnable.
func (p *Pool) Start(ctx context.Context) error {
	ticker := p.clock.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.end()
			p.closing.Wait()
			return nil
		case <-ticker.C():
			now := p.clock.Now()
			p.sweep(func(s *session) bool { return now.Sub(s.touched) > idle })
		}
	}
}

// end closes all sessions.
func (p *Pool) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.sweep(func(*session) bool { return true })
}

// sweep closes the sessions that are over.
func (p *Pool) sweep(over func(*session) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, s := range p.sessions {
		if over(s) {
			p.discard(uid)
		}
	}
}
