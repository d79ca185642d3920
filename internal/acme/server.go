package acme

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/linklocal"
)

// server holds the shared state of the clients of one server.
type server struct {
	pool  *Pool
	url   string
	plain bool // http is allowed, because the directory is read by it
	used  uint64
	http  *http.Client

	silence silence

	mu        sync.Mutex
	directory *directory
	until     time.Time // when directory has to be read again
	nonces    []string
	limits    map[string]*limits // by thumbprints of keys
}

const (
	requestTimeout = 90 * time.Second
	maxRedirects   = 5
	// maxNonces is how many unused nonces are kept. Servers forget old ones.
	maxNonces = 16
	// maxAccounts is how many accounts of a server have limits.
	maxAccounts = 10000
)

func newServer(p *Pool, cfg Config) (*server, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cfg.SkipTLSVerify}
	if len(cfg.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(cfg.CABundle) {
			return nil, errCABundle
		}
	}
	directory, err := url.Parse(cfg.Directory)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL of the directory: %w", err)
	}
	s := &server{pool: p, url: cfg.Directory, plain: directory.Scheme == "http", limits: map[string]*limits{}}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust,
		TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 256 << 10,
	}
	if cfg.NoLoopback {
		linklocal.Guard(transport, linklocal.RefuseLoopback("acme"))
	} else {
		linklocal.Guard(transport)
	}
	s.http = &http.Client{
		Timeout:       requestTimeout,
		CheckRedirect: s.redirect,
		Transport:     transport,
	}
	return s, nil
}

// redirect follows what is only read. A signed message is for one URL.
func (s *server) redirect(next *http.Request, via []*http.Request) error {
	if via[0].Method == http.MethodPost {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	}
	return s.check(next.URL)
}

// checkURL returns an error if a client may not use a URL from the server.
func (s *server) checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURL {
		return errors.New("the server has sent a URL that cannot be parsed")
	}
	return s.check(u)
}

// maxURL is the length of URLs from servers; they are stored in objects.
const maxURL = 2048

func (s *server) check(u *url.URL) error {
	switch {
	case u.Scheme != "https" && (!s.plain || u.Scheme != "http"):
		return fmt.Errorf("the server has sent the URL %s, which does not begin with https://", rfc8555.ShortLine(u.Redacted(), 200))
	case u.Host == "" || u.User != nil:
		return fmt.Errorf("the server has sent the URL %s, which must have a host and no user", rfc8555.ShortLine(u.Redacted(), 200))
	}
	return nil
}

func (s *server) takeNonce() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.nonces) == 0 {
		return ""
	}
	last := len(s.nonces) - 1
	nonce := s.nonces[last]
	s.nonces = s.nonces[:last]
	return nonce
}

// keepNonce stores the nonce of a response for the next request.
func (s *server) keepNonce(h http.Header) {
	nonce := h.Get("Replay-Nonce")
	if nonce == "" || len(nonce) > 1024 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.nonces) >= maxNonces {
		s.nonces = s.nonces[1:]
	}
	s.nonces = append(s.nonces, nonce)
}

// dropNonces forgets all nonces, after the server has refused one.
func (s *server) dropNonces() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonces = nil
}
