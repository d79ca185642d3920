package vault

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// minKept and maxKept limit how long a token is kept.
	minKept = 10 * time.Second
	maxKept = 24 * time.Hour
	// idle is how long an unused token is kept. Ready issuers are checked more often than
	// that.
	idle = 15 * time.Minute
	// revokeTime is how long revoking tokens may take: a server that does not answer
	// must not hold up the end of the process.
	revokeTime = 2 * time.Second
	// maxTokens limits how many tokens are kept.
	maxTokens = 10_000
)

// session is where a token is valid.
type session struct {
	server    *server
	namespace string
}

// kept is the token of one issuer. The Pool's mu guards it.
type kept struct {
	key     string
	session session
	lease   lease
	// granted is when the server has granted the token.
	granted time.Time
	// first is the duration of the lease at the login.
	first time.Duration
	// renewAt is when it is renewed; zero means never. until is when it is not
	// used any more; zero means never.
	renewAt, until time.Time
	used           int
	touched        time.Time
}

// newKept returns a token to keep. It is used for two thirds of its life at
// most, as clocks and the way to the server take time.
func newKept(key string, s session, l lease, now time.Time) *kept {
	k := &kept{key: key, session: s, granted: now, first: l.duration, touched: now}
	k.extend(l, now)
	return k
}

// extend makes k last as long as a new lease of its token.
func (k *kept) extend(l lease, now time.Time) {
	k.lease, k.renewAt, k.until = l, time.Time{}, time.Time{}
	if l.duration == 0 {
		return
	}
	life := min(max(l.duration*2/3, minKept), maxKept)
	k.until = now.Add(life)
	// Near the end of what a server grants at most, each renewal gives less: then a
	// login is due.
	if l.renewable && l.uses == 0 && l.duration >= k.first/2 {
		k.renewAt = now.Add(life * 3 / 4) // half of the lease
	}
}

// usable reports whether the token can be used once more. One use is left for
// revoking it.
func (k *kept) usable(now time.Time) bool {
	return (k.until.IsZero() || now.Before(k.until)) && (k.lease.uses == 0 || k.used < max(k.lease.uses-1, 1))
}

// revocable reports whether the server can be told to forget the token.
func (k *kept) revocable() bool {
	return !k.lease.batch && (k.lease.uses == 0 || k.used < k.lease.uses)
}

// flight is a login or a renewal that is under way.
type flight struct {
	done chan struct{}
	key  string
	// err is valid after done. abandoned is set if the caller that made it gave up: that
	// does not indicate the server's state.
	err       error
	abandoned bool
}

// keeper holds the tokens of issuers, by UID. It is safe for concurrent use.
type keeper struct {
	mu      sync.Mutex // guards what follows
	tokens  map[string]*kept
	flights map[string]*flight
	ended   bool

	revoking sync.WaitGroup // calls that revoke tokens
}

// over reports whether the process ends.
func (p *Pool) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// granted is a token for one attempt.
type granted struct {
	token credential
	// at is when the server has granted it; zero for a token from a Secret.
	at time.Time
}

// token returns the token of an issuer: that of its Secret, one that is kept, or
// a new one.
func (p *Pool) token(ctx context.Context, i Issuer, m material, s session) (granted, error) {
	if m.login.token != "" {
		return granted{token: m.login.token}, nil
	}
	key := i.key(m)
	for {
		g, wait, ok := p.take(i.UID, key)
		if ok {
			return g, nil
		}
		if wait == nil {
			if err := p.fly(ctx, i, m, s, key); err != nil {
				return granted{}, err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return granted{}, &connectionError{ctx.Err()}
		case <-wait.done:
		}
		if wait.err != nil && !wait.abandoned && wait.key == key {
			return granted{}, wait.err
		}
	}
}

// take returns a kept token, or a flight to wait for, or neither: then the caller, and only
// the caller, must call fly.
func (p *Pool) take(uid, key string) (g granted, wait *flight, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	under := p.flights[uid]
	k := p.tokens[uid]
	fits := k != nil && k.key == key && k.usable(now)
	due := fits && !k.renewAt.IsZero() && !now.Before(k.renewAt)
	switch {
	case fits && (!due || under != nil): // the old token is good while another caller renews it
		k.used++
		k.touched = now
		return granted{token: k.lease.token, at: k.granted}, nil, true
	case under != nil:
		return granted{}, under, false
	}
	p.flights[uid] = &flight{done: make(chan struct{}), key: key}
	return granted{}, nil, false
}

// fly renews the token of an issuer, or logs in. It ends the flight that take
// has begun.
func (p *Pool) fly(ctx context.Context, i Issuer, m material, s session, key string) (err error) {
	defer func() { p.land(ctx, i.UID, err) }()
	if p.renew(ctx, i.UID, key) {
		return nil
	}
	at := s.server
	if m.login.pair != nil {
		c := m.connection
		c.pairs = append(append([]pair(nil), c.pairs...), *m.login.pair)
		if at, err = p.server(c); err != nil {
			return &accessError{err}
		}
	}
	l, err := p.logIn(ctx, at, i, m.login)
	if err != nil {
		return err
	}
	fresh := newKept(key, s, *l, p.clock.Now())
	if p.over() {
		p.discard(fresh)
		return &connectionError{context.Canceled}
	}
	p.keep(i.UID, fresh)
	return nil
}

func (p *Pool) land(ctx context.Context, uid string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flights[uid]
	delete(p.flights, uid)
	f.err, f.abandoned = err, err != nil && errors.Is(ctx.Err(), context.Canceled)
	close(f.done)
}

// renew extends the kept token of an issuer, if that is due. It reports whether a usable
// token exists.
func (p *Pool) renew(ctx context.Context, uid, key string) bool {
	p.mu.Lock()
	k := p.tokens[uid]
	now := p.clock.Now()
	if k == nil || k.key != key || !k.usable(now) || k.renewAt.IsZero() {
		p.mu.Unlock()
		return false
	}
	at, token := k.session, k.lease.token
	p.mu.Unlock()

	l, err := at.renew(ctx, token)
	p.mu.Lock()
	defer p.mu.Unlock()
	now = p.clock.Now()
	switch {
	case err == nil:
		k.extend(*l, now)
	case unavailable(err): // it is still good; the next attempt is later
		k.renewAt = now.Add(max(k.until.Sub(now)/2, time.Second))
	default:
		return false
	}
	return k.usable(now)
}

func (s session) renew(ctx context.Context, token credential) (*lease, error) {
	body, err := s.server.do(ctx, call{
		operation: opRenew, method: http.MethodPost, path: "/v1/auth/token/renew-self", namespace: s.namespace, token: token, body: struct{}{},
	})
	if err != nil {
		return nil, err
	}
	return readLease(body)
}

// revoke tells the server to forget a token, without waiting for long.
func (s session) revoke(ctx context.Context, token credential) {
	ctx, cancel := context.WithTimeout(ctx, revokeTime)
	defer cancel()
	_, _ = s.server.do(ctx, call{ // a token that is not revoked ends by itself
		operation: opRevoke, method: http.MethodPost, path: "/v1/auth/token/revoke-self", namespace: s.namespace, token: token, body: struct{}{},
	})
}

// keep stores a token, in place of another one of the issuer.
func (p *Pool) keep(uid string, k *kept) {
	p.mu.Lock()
	old := p.tokens[uid]
	if old == nil && len(p.tokens) >= maxTokens {
		old = p.leastUsed()
	}
	p.tokens[uid] = k
	p.metrics.tokens.Set(float64(len(p.tokens)))
	p.mu.Unlock()
	p.discard(old)
}

// leastUsed takes away the token that has not been used for the longest time.
// The caller must hold mu.
func (p *Pool) leastUsed() *kept {
	var uid string
	for other, k := range p.tokens {
		if oldest := p.tokens[uid]; oldest == nil || k.touched.Before(oldest.touched) {
			uid = other
		}
	}
	oldest := p.tokens[uid]
	delete(p.tokens, uid)
	return oldest
}

// reject drops the token of an issuer if it is the one that the server has
// refused.
func (p *Pool) reject(uid string, token credential) {
	p.mu.Lock()
	k := p.tokens[uid]
	if k == nil || k.lease.token != token {
		p.mu.Unlock()
		return
	}
	delete(p.tokens, uid)
	p.metrics.tokens.Set(float64(len(p.tokens)))
	p.mu.Unlock()
	p.discard(k)
}

// discard revokes a token in the background.
func (p *Pool) discard(k *kept) {
	if k == nil || !k.revocable() {
		return
	}
	p.revoking.Add(1)
	go func() {
		defer p.revoking.Done()
		k.session.revoke(context.Background(), k.lease.token)
	}()
}

// Wait waits until no token is being revoked. It is for tests.
func (p *Pool) Wait() { p.revoking.Wait() }
