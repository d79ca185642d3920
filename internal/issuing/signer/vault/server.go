package vault

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/issuing/signer/outbound"
	"github.com/certplane/certplane/internal/process/backoff"
)

// connection is how an issuer reaches its server.
type connection struct {
	// owner is the namespace of the issuer's Secrets: what one tenant does to a
	// server must not keep the others from it.
	owner, server, serverName string
	bundle                    []byte
	pairs                     []pair
	guard                     outbound.Guard
}

// pair is a client certificate with its key, in PEM.
type pair struct{ certificate, key []byte }

// hash identifies the connection.
func (c connection) hash() [sha256.Size]byte {
	parts := [][]byte{[]byte(c.owner), []byte(c.server), []byte(c.serverName), c.bundle, fmt.Append(nil, c.guard)}
	for _, p := range c.pairs {
		parts = append(parts, p.certificate, p.key)
	}
	var all []byte
	for _, part := range parts {
		all = append(binary.BigEndian.AppendUint64(all, uint64(len(part))), part...)
	}
	return sha256.Sum256(all)
}

// server is a server as the issuers with one connection reach it. It is safe for
// concurrent use.
type server struct {
	owner, name string
	base        *url.URL
	client      *http.Client
	// ownCAs is set if the server proves itself by CAs of the issuer.
	ownCAs  bool
	timeout time.Duration
	clock   clock.Clock
	random  backoff.Jitter
	metrics *metrics
	// changed is called when the breaker has opened or closed.
	changed func(Server)

	mu          sync.Mutex // guards what follows
	breaker     breaker.Breaker
	pausedUntil time.Time
}

// Server is the address of a server, as issuers whose Secrets are in a namespace
// name it.
type Server struct{ Namespace, URL string }

// parseServer returns the base URL of a server.
func parseServer(address string) (*url.URL, error) {
	base, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("error initializing Vault client: the server is not a URL")
	case base.Scheme != "https" && base.Scheme != "http":
		return nil, errors.New("error initializing Vault client: the server must begin with https:// or http://")
	case base.Hostname() == "":
		return nil, errors.New("error initializing Vault client: the server has no host")
	}
	base.RawQuery, base.ForceQuery, base.Fragment, base.RawFragment = "", false, "", ""
	return base, nil
}

func (p *Pool) newServer(c connection) (*server, error) {
	base, err := parseServer(c.server)
	if err != nil {
		return nil, err
	}
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	transport, err := outbound.NewTransport(config, c.guard, base)
	if err != nil {
		return nil, err
	}
	return &server{
		owner: c.owner, name: c.server, base: base, client: newClient(transport), ownCAs: len(c.bundle) > 0,
		timeout: p.settings.Timeout.Duration, clock: p.clock, random: p.random, metrics: p.metrics, changed: p.changes.Tell,
	}, nil
}

// address returns the URL of a path of the API, with the path of the base.
func (s *server) address(apiPath string) *url.URL {
	at := *s.base
	at.Path, at.RawPath = path.Join("/", at.Path, apiPath), ""
	return &at
}

// attempt lets try call the server, if the breaker permits it. id identifies
// who asks: several failures of one do not open the breaker. The errors of the
// breaker are *UnavailableError.
func (s *server) attempt(id string, try func() error) error {
	pass, err := s.enter()
	if err != nil {
		return err
	}
	about := breaker.Abandoned // unless try returns
	defer func() { s.leave(pass, about, id) }()
	err = try()
	about = healthOf(err)
	return err
}

func (s *server) enter() (breaker.Pass, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if wait := s.pausedUntil.Sub(now); wait > 0 {
		s.metrics.spared.Inc()
		// Random, so that not all requests are retried at the same moment.
		return breaker.Pass{}, &UnavailableError{Err: errors.New("the Vault server requested a pause"), RetryAfter: wait + s.random(max(wait/5, time.Second))}
	}
	pass, _, ok := s.breaker.Enter(now)
	if !ok {
		s.metrics.spared.Inc()
		// The caller decides when to try again, with growing pauses; changed notifies it
		// when the breaker has closed.
		return breaker.Pass{}, &UnavailableError{Err: errors.New("calls to the Vault server are suspended for a while because it did not answer several requests")}
	}
	return pass, nil
}

func (s *server) leave(p breaker.Pass, about breaker.Health, id string) {
	s.mu.Lock()
	was := s.breaker.Open()
	s.breaker.Leave(p, about, id, s.clock.Now())
	is := s.breaker.Open()
	s.mu.Unlock()
	if was != is {
		s.changed(Server{Namespace: s.owner, URL: s.name})
	}
}

// close closes the connections that are not in use.
func (s *server) close() { s.client.CloseIdleConnections() }

// signPath returns the path of the API that signs. stripped is set if the spec
// has the prefix that clients add.
func signPath(spec string) (joined string, stripped bool, err error) {
	rest, stripped := strings.CutPrefix(spec, "/v1/")
	if hasParent(rest) {
		return "", false, fmt.Errorf("path %q: must not contain '..' path segments", spec)
	}
	return path.Join("/v1", rest), stripped, nil
}

// revokePath returns the path of the API that revokes the certificates of the CA behind a
// path that signs: both are below the mount of the secrets engine.
func revokePath(spec string) (string, error) {
	at, _, err := signPath(spec)
	if err != nil {
		return "", err
	}
	segments := strings.Split(at, "/") // "", "v1", the mount, what it does, the role
	for _, n := range []int{len(segments) - 2, len(segments) - 1} {
		if n < 3 || !slices.Contains([]string{"sign", "sign-verbatim", "sign-intermediate", "issue"}, segments[n]) {
			continue
		}
		switch {
		case n > 4 && segments[n-2] == "issuer":
			n -= 2
		case n > 3 && segments[n-1] == "root":
			n--
		}
		return strings.Join(append(segments[:n], "revoke"), "/"), nil
	}
	return "", fmt.Errorf("path %q: it is not known below which path its certificates are revoked: it is not MOUNT/sign/ROLE", spec)
}

// loginPath returns the path of the API for logins by a mountPath in any of the
// forms that users write.
func loginPath(mountPath, standard string) (string, error) {
	if mountPath == "" {
		mountPath = standard
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(mountPath, "/"), "v1/")
	_, mount, below := strings.Cut("/"+path.Clean(rest)+"/", "/auth/")
	if hasParent(rest) || !below || mount == "" {
		return "", fmt.Errorf("mountPath %q: must be below /v1/auth/", mountPath)
	}
	return path.Join("/v1", rest, "login"), nil
}

func hasParent(p string) bool {
	for segment := range strings.SplitSeq(p, "/") {
		if segment == ".." {
			return true
		}
	}
	return false
}
