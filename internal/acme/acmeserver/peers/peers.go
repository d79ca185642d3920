// Package peers lets the processes of one ACME server redeem each other's nonces.
//
// Each process has an entry in one Lease: its address, and the digest of a key that it
// generates at its start and never stores. Both ends of a connection authenticate each
// other by these keys, so that a call needs no token that could leak and no API call.
// Write access to the Lease determines the peers.
package peers

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
)

const (
	// aliveFor is how long a process whose entry does not change counts as a peer.
	aliveFor = 15 * time.Second
	// maxCalls is how many calls of a peer there are at a time.
	maxCalls = 32
	// idleTimeout is less than the idle timeout of listeners, so that no call uses a
	// connection that is being closed.
	idleTimeout = 45 * time.Second
)

// Config configures Peers.
type Config struct {
	// Instance names this process in the nonces that it makes.
	Instance nonce.Instance
	// Address is the HOST:PORT at which peers reach this process.
	Address string
	// Lease is the Lease that contains the entries of all processes, as annotations. So a
	// process needs write access to one object only, and leaves no objects behind.
	Lease client.ObjectKey
	// Client writes the Lease. It needs create on leases, and patch on this one.
	Client client.Client
	// Cache contains the Lease. It needs list and watch.
	Cache cache.Cache
	// Redeem redeems a nonce of this process.
	Redeem func(text string) bool
	// Now is the time.
	Now func() time.Time
}

// Peers are the other processes of the server. They are safe for concurrent use.
type Peers struct {
	Config
	own *identity

	mu    sync.Mutex
	known map[nonce.Instance]*peer
	// renewed is when the Lease took the entry of this process for the last time, and
	// failing is set if it did not take the latest one.
	renewed time.Time
	failing bool
}

// peer is one other process.
type peer struct {
	entry entry
	// at is its IP address, if the entry has one.
	at netip.Addr
	// changed is when its entry was seen to change, by the clock of this process.
	changed time.Time
	// skew is how far its clock was ahead of the local one then; zero if that is not
	// known.
	skew time.Duration
	http *http.Client
}

// New returns peers that are not known yet: Run finds them.
func New(ctx context.Context, cfg Config) (*Peers, error) {
	own, err := newIdentity(cfg.Now())
	if err != nil {
		return nil, err
	}
	p := &Peers{Config: cfg, own: own, known: map[nonce.Instance]*peer{}}
	return p, p.follow(ctx)
}

// alive returns a peer, nil if it is not alive.
func (p *Peers) alive(instance nonce.Instance) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.known[instance]; one != nil && p.isAlive(one) {
		return one
	}
	return nil
}

// isAlive reports whether an entry has changed lately. Its caller holds mu.
func (p *Peers) isAlive(one *peer) bool { return p.age(one) < aliveFor }

// age returns for how long an entry could have changed, and has not: while this process
// cannot write the Lease, its peers most likely cannot either, so no entry gets older. If
// peers were removed then, clients whose requests alternate between processes would be
// refused each nonce, while a call to a peer that is gone only takes a moment. Its caller
// holds mu.
func (p *Peers) age(one *peer) time.Duration {
	if p.failing {
		return p.renewed.Sub(one.changed)
	}
	return p.Now().Sub(one.changed)
}

// noteRenewal records whether the entry of this process was written to the Lease. After
// failures, the peers also get time to write their entries.
func (p *Peers) noteRenewal(done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	for _, one := range p.known {
		if done && p.failing && p.isAlive(one) {
			one.changed = now
		}
	}
	if p.failing = !done; done {
		p.renewed = now
	}
}

// any reports whether holds returns true for a peer.
func (p *Peers) any(holds func(*peer) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.known {
		if p.isAlive(one) && holds(one) {
			return true
		}
	}
	return false
}

// At reports whether a peer has this address.
func (p *Peers) At(address netip.Addr) bool {
	return p.any(func(one *peer) bool { return one.at == address })
}

// Skew returns the largest difference between the clock of a peer and the local one:
// positive if the peer's is ahead.
func (p *Peers) Skew() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var most time.Duration
	for _, one := range p.known {
		if p.isAlive(one) && one.skew.Abs() > most.Abs() {
			most = one.skew
		}
	}
	return most
}

// Redeem asks the process that has made a nonce to redeem it, once. It is false if
// that process is away, or does not answer before ctx ends.
func (p *Peers) Redeem(ctx context.Context, instance nonce.Instance, text string) bool {
	one := p.alive(instance)
	if one == nil {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+one.entry.Address+"/", strings.NewReader(text))
	if err != nil {
		return false
	}
	answer, err := one.http.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, nonce.Size)) // so that the connection is kept
	return answer.StatusCode == http.StatusNoContent
}

// ServeHTTP redeems a nonce for a peer. It is only for connections that TLS has
// accepted.
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(io.LimitReader(r.Body, nonce.Size+1))
	if err != nil || r.Method != http.MethodPost || !p.Config.Redeem(string(text)) {
		w.WriteHeader(http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// newClient returns a client of one peer, which only reaches the holder of its key.
func (p *Peers) newClient(key string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: p.own.toward(key), MaxConnsPerHost: maxCalls, MaxIdleConnsPerHost: maxCalls, IdleConnTimeout: idleTimeout,
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1: one call does not wait for others
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// TLS returns the configuration for connections of peers if the ClientHello has their
// server name, otherwise nil. The configuration refuses clients that are not peers.
func (p *Peers) TLS(hello *tls.ClientHelloInfo) *tls.Config {
	if hello.ServerName != serverName {
		return nil
	}
	return p.own.fromPeers(func(key string) error {
		if p.any(func(one *peer) bool { return one.entry.Key == key }) {
			return nil
		}
		return fmt.Errorf("no process of the ACME server has this key")
	})
}
