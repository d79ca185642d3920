package venafi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/issuing/signer/outbound"
	"github.com/certplane/certplane/internal/process/backoff"
)

// revokeTime is how long revoking a grant may take: a server that does not answer
// must not hold up the end of the process.
const revokeTime = 2 * time.Second

// session contains what is kept between the attempts of one issuer: its connections and the
// grant of its server. It is safe for concurrent use.
type session struct {
	key       string
	target    target
	transport *http.Transport
	timeout   time.Duration
	clock     clock.PassiveClock
	random    backoff.Jitter
	metrics   *metrics
	connect   func(target, *line) (connector, error)

	// loggingIn has a value while an attempt logs in: the others wait for it.
	loggingIn chan struct{}

	mu          sync.Mutex // guards what follows
	grant       *grant
	granted     []credential // granted tokens, which no text may show
	breaker     breaker.Breaker
	pausedUntil time.Time
	touched     time.Time
	closed      bool
}

// baseURL returns the address of the server of an issuer, as vcert completes it.
func (i Issuer) baseURL() (*url.URL, error) {
	if i.URL == "" && i.Product != TPP {
		return &url.URL{Scheme: "https"}, nil
	}
	base, err := url.Parse(i.URL)
	switch {
	case err != nil:
		return nil, errors.New("the url is not a URL")
	case base.User != nil:
		return nil, errors.New("the url has a user or a password in it, which belong in the Secret")
	}
	return base, nil
}

// newTransport returns the connections to the server of an issuer.
func (p *Pool) newTransport(i Issuer, m material) (*http.Transport, error) {
	base, err := i.baseURL()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if i.Product == TPP {
		// IIS asks for client certificates by path, after the handshake.
		config.Renegotiation = tls.RenegotiateOnceAsClient
	}
	if len(m.bundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(m.bundle) {
			return nil, errors.New("the CA bundle has no certificates")
		}
	}
	guard := p.guard
	guard.Loopback = guard.Loopback || i.Loopback
	transport, err := outbound.NewTransport(config, guard, base)
	if err != nil {
		return nil, err
	}
	transport.ForceAttemptHTTP2 = false // HTTP/2 has no room for the texts of TPP's statuses
	return transport, nil
}

// secrets are what no text may show.
func (s *session) secrets() []credential {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(s.target.credentials.all(), s.granted...)
}

func (s *session) newLine(ctx context.Context) *line {
	return &line{ctx: ctx, session: s, product: s.target.Product}
}

// attempt calls try with a connector to the server, unless the breaker is open. id
// identifies the request: several failures of one request do not open the breaker.
func (s *session) attempt(ctx context.Context, id string, try func(connector, *line, login) error) error {
	pass, err := s.enter()
	if err != nil {
		return err
	}
	about := breaker.Abandoned // unless try returns
	defer func() { s.leave(pass, about, id, err) }()
	err = s.try(ctx, try)
	about = healthOf(err)
	return err
}

// login is the grant that an attempt uses. It is fresh if the attempt itself has obtained
// it.
type login struct {
	*grant
	fresh bool
}

// try lets try speak to the server, a second time if a kept grant has ended
// early.
func (s *session) try(ctx context.Context, try func(connector, *line, login) error) error {
	for again := false; ; again = true {
		l := s.newLine(ctx)
		granted, err := s.once(l, try)
		if err != nil && !again && granted.grant != nil && !granted.fresh && granted.renewable && l.result().status == http.StatusUnauthorized {
			s.drop(granted.grant)
			continue
		}
		return l.verdict(err)
	}
}

func (s *session) once(l *line, try func(connector, *line, login) error) (granted login, err error) {
	c, err := s.connect(s.target, l)
	if err != nil {
		return login{}, &InitError{Err: fmt.Errorf("error creating vcert client: %s", l.text(err))}
	}
	defer c.close()
	// vcert panics at some answers that it does not expect.
	defer func() {
		if problem := recover(); problem != nil {
			klog.FromContext(l.ctx).V(1).Info("vcert cannot read an answer", "server", s.target.URL, "problem", fmt.Sprint(problem))
			err = errors.New("the server gave an answer that cannot be used")
		}
	}()
	if granted, err = s.logIn(l, c); err != nil {
		return granted, err
	}
	return granted, try(c, l, granted)
}

// logIn gives a connector the kept grant, or gets one.
func (s *session) logIn(l *line, c connector) (login, error) {
	select {
	case s.loggingIn <- struct{}{}:
		defer func() { <-s.loggingIn }()
	case <-l.ctx.Done():
		return login{}, &UnavailableError{Err: l.ctx.Err(), abandoned: true}
	}
	if g := s.kept(); g != nil {
		if err := c.use(g); err != nil {
			return login{}, l.failedLogin(err)
		}
		return login{grant: g}, nil
	}
	start := s.clock.Now()
	g, err := c.login()
	s.metrics.loggedIn(err, s.clock.Since(start))
	if err != nil {
		return login{}, l.failedLogin(err)
	}
	s.keep(g)
	return login{grant: g, fresh: true}, nil
}

// kept returns the grant that is kept, if it can still be used.
func (s *session) kept() *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grant == nil || !s.grant.until.IsZero() && !s.clock.Now().Before(s.grant.until) {
		return nil
	}
	return s.grant
}

// keep stores a grant in place of another one.
func (s *session) keep(g *grant) {
	if g.life > 0 {
		g.until = s.clock.Now().Add(g.life * 4 / 5)
	}
	s.mu.Lock()
	old := s.grant
	closed := s.closed
	if s.grant = g; g.token != "" {
		s.granted = append(s.granted[max(0, len(s.granted)-3):len(s.granted):len(s.granted)], g.token)
	}
	s.mu.Unlock()
	s.revoke(old)
	if closed {
		s.revoke(g)
	}
}

// drop forgets a grant that the server does not accept any more.
func (s *session) drop(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grant == g {
		s.grant = nil
	}
}

// revoke has the server forget a grant, if it was made for this session.
func (s *session) revoke(g *grant) {
	if g == nil || !g.own {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), revokeTime)
	defer cancel()
	defer func() { _ = recover() }()
	c, err := s.connect(s.target, s.newLine(ctx))
	if err != nil {
		return
	}
	defer c.close()
	if err := c.revoke(g); err != nil { // it expires anyway
		klog.Background().V(1).Info("A token of a Certificate Manager server could not be revoked", "server", s.target.URL)
	}
}

// close ends the session. An attempt that is under way finishes on its own.
func (s *session) close() {
	s.mu.Lock()
	g := s.grant
	s.grant, s.closed = nil, true
	s.mu.Unlock()
	s.revoke(g)
	s.transport.CloseIdleConnections()
}

func (s *session) enter() (breaker.Pass, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	wait, why := s.pausedUntil.Sub(now), "the server has asked for a pause"
	var pass breaker.Pass
	if wait <= 0 {
		var ok bool
		if pass, wait, ok = s.breaker.Enter(now); ok {
			return pass, nil
		}
		why = "the server is not called for a while because it did not answer several requests"
	}
	// Random, so that not all requests are retried at the same moment.
	return breaker.Pass{}, &UnavailableError{Err: errors.New(why), RetryAfter: wait + s.random(breaker.OpenFor/5), spared: true}
}

func (s *session) leave(p breaker.Pass, about breaker.Health, id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.breaker.Leave(p, about, id, now)
	if down := new(UnavailableError); errors.As(err, &down) && !down.spared && down.RetryAfter > 0 {
		s.pausedUntil = now.Add(down.RetryAfter)
	}
}
