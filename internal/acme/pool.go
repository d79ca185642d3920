// Package acme is a client of ACME servers (RFC 8555) and of their extensions:
// profiles and renewal information (RFC 9773).
package acme

import (
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/process/backoff"
)

// PoolConfig configures the shared part of all clients of a process.
type PoolConfig struct {
	// UserAgent is the name of this program and its version.
	UserAgent string
	// Metrics, if not nil, gets the metrics of the requests.
	Metrics prometheus.Registerer
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Jitter spreads the ends of waits; nil means a random one.
	Jitter backoff.Jitter
	// Settings are the operator's; the zero value means DefaultClientSettings.
	Settings ClientSettings
}

// Pool holds the shared state of clients: connections, directories, nonces and the limits
// of accounts. It is safe for concurrent use.
type Pool struct {
	PoolConfig
	metrics *metrics

	mu      sync.Mutex
	servers map[serverKey]*server
	used    uint64 // counts the uses of servers
}

// NewPool returns a Pool without any server in it.
func NewPool(cfg PoolConfig) (*Pool, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Jitter == nil {
		cfg.Jitter = backoff.Random
	}
	if reflect.ValueOf(cfg.Settings).IsZero() {
		cfg.Settings = DefaultClientSettings()
	}
	if err := cfg.Settings.Validate(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of ACME requests: %w", err)
	}
	return &Pool{PoolConfig: cfg, metrics: metrics, servers: map[serverKey]*server{}}, nil
}

// Config selects the account and the server that a Client uses.
type Config struct {
	// Directory is the URL of the server's directory.
	Directory string
	// Key is the key of the account: RSA, or ECDSA on P-256, P-384 or P-521.
	Key crypto.Signer
	// Account is the URL of the account; empty if it is not known yet.
	Account string
	// CABundle, if not empty, has the only roots that are trusted, in PEM.
	CABundle []byte
	// SkipTLSVerify accepts any certificate of the server.
	SkipTLSVerify bool
	// NoLoopback refuses loopback addresses, of the directory, of redirects and of the URLs
	// in answers.
	NoLoopback bool
}

// Client makes the requests of one account. It is safe for concurrent use.
type Client struct {
	pool   *Pool
	server *server

	mu      sync.Mutex
	signer  *jwsSigner
	account string
	limits  *limits
}

// Client returns a client. It makes no requests. Clients are cheap: what costs
// time is kept in the Pool.
func (p *Pool) Client(cfg Config) (*Client, error) {
	if err := checkDirectory(cfg.Directory); err != nil {
		return nil, err
	}
	signer, err := newJWSSigner(cfg.Key)
	if err != nil {
		return nil, err
	}
	s, err := p.server(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{pool: p, server: s, signer: signer, account: cfg.Account, limits: s.limitsOf(signer.thumbprint)}, nil
}

// Account returns the URL of the account; empty if it is not known.
func (c *Client) Account() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account
}

// KeyAuthorization returns the key authorization for a token (RFC 8555 section
// 8.1).
func (c *Client) KeyAuthorization(token string) string {
	signer, _, _ := c.identity()
	return token + "." + signer.thumbprint
}

// identity returns the key, the URL of the account and its limits.
func (c *Client) identity() (*jwsSigner, string, *limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signer, c.account, c.limits
}

func (c *Client) setAccount(url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account = url
}

// setKey makes a key that the server has accepted the key of the account, for
// clients with the former key too.
func (c *Client) setKey(signer *jwsSigner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.succeed(successor{account: c.account, signer: signer, until: c.pool.Clock.Now().Add(successionFor)})
	c.server.moveLimits(c.limits, signer.thumbprint)
	c.signer = signer
}

func checkDirectory(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("parsing the URL of the directory: %w", err)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("the URL of the directory, %q, must begin with https://", text)
	case u.Host == "" || u.User != nil:
		return fmt.Errorf("the URL of the directory, %q, must have a host and no user", text)
	}
	return nil
}

// serverKey identifies a server and the way to verify it: clients that verify a server
// differently do not share its answers.
type serverKey struct {
	directory string
	roots     [sha256.Size]byte
	insecure  bool
	remote    bool
}

func serverKeyOf(cfg Config) serverKey {
	return serverKey{cfg.Directory, sha256.Sum256(cfg.CABundle), cfg.SkipTLSVerify, cfg.NoLoopback}
}

// maxServers is the maximum number of servers in a Pool.
const maxServers = 1000

func (p *Pool) server(cfg Config) (*server, error) {
	key := serverKeyOf(cfg)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used++
	if s, ok := p.servers[key]; ok {
		s.used = p.used
		return s, nil
	}
	s, err := newServer(p, cfg)
	if err != nil {
		return nil, err
	}
	if len(p.servers) >= maxServers {
		p.forgetOldest()
	}
	s.used = p.used
	p.servers[key] = s
	return s, nil
}

// forgetOldest removes the server that no client was made for in the longest
// time. Its clients can still use it.
func (p *Pool) forgetOldest() {
	var oldest serverKey
	least := p.used + 1
	for key, s := range p.servers {
		if s.used < least {
			oldest, least = key, s.used
		}
	}
	delete(p.servers, oldest)
}

var errCABundle = errors.New("caBundle contains no readable certificate")
