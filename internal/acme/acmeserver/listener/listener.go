package listener

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/process/notify"
	"github.com/certplane/certplane/internal/tenant/connections"
)

// Limits for clients, which may be hostile.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	answerTimeout = 30 * time.Second
	idleTimeout   = 60 * time.Second
	stopTimeout   = 10 * time.Second
	stall         = 10 * time.Second
	maxHeader     = 16 << 10
	// maxStreams is how many requests of one connection are answered at a time.
	maxStreams = 32
	// maxConnections is how many connections there are, and maxConnectionsFrom how
	// many of one address. One more closes the oldest of the address that has the
	// most.
	maxConnections, maxConnectionsFrom = 4096, 64
)

// classProxy is the class of holders of connections of proxies. Each is its own
// holder: behind it are many clients.
const classProxy = "proxy"

// Server serves a handler by HTTPS.
type Server struct {
	// Handler answers the requests. ClientAddress returns their senders.
	Handler http.Handler
	// Peers answers other processes of the ACME server. It can be nil.
	Peers Peers

	settings        Settings
	proxies, within []netip.Prefix
	files           *files // nil if Use is called
	current         atomic.Pointer[identity]
	waiting         atomic.Pointer[string]
	changes         notify.List[struct{}]
}

// New returns a server that does not listen yet. With files for a certificate, these
// must be readable.
func New(ctx context.Context, settings Settings) (*Server, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	s := &Server{settings: settings}
	s.proxies, _ = prefixes("trustedProxies", settings.TrustedProxies)
	s.within, _ = prefixes("clientAddresses", settings.ClientAddresses)
	if settings.Certificate.CertFile == "" {
		return s, nil
	}
	s.files = newFiles(settings.Certificate, s.use)
	return s, s.files.open(ctx)
}

// ExternalURL is the beginning of all URLs that clients are given.
func (s *Server) ExternalURL() string { return s.settings.ExternalURL }

// FormerURLs are earlier values of ExternalURL.
func (s *Server) FormerURLs() []string { return s.settings.FormerURLs }

// Serve serves until ctx ends, and then finishes the requests in progress.
func (s *Server) Serve(ctx context.Context) error {
	inner, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.settings.Listen)
	if err != nil {
		return fmt.Errorf("%s.listen: %w", field, err)
	}
	if !s.settings.ServesRoots() {
		return s.serve(ctx, inner)
	}
	plain, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.settings.RootsListen)
	if err != nil {
		inner.Close()
		return fmt.Errorf("%s.rootsListen: %w", field, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.serve(ctx, inner) })
	group.Go(func() error { return s.serveRoots(ctx, plain) })
	return group.Wait()
}

func (s *Server) serve(ctx context.Context, inner net.Listener) error {
	if s.files != nil {
		go s.files.run(ctx)
	}
	server, bounded := s.bounded(inner, s.withPeers(s.withAddress(s.Handler)))
	server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.getCertificate, GetConfigForClient: s.tlsOfPeers}
	klog.FromContext(ctx).Info("Serving ACME clients", "address", inner.Addr().String(), "url", s.settings.ExternalURL)
	return untilEnd(ctx, server, func() error { return server.ServeTLS(bounded, "", "") })
}

// bounded returns an HTTP server with the limits for strangers, and its listener.
func (s *Server) bounded(inner net.Listener, handler http.Handler) (*http.Server, net.Listener) {
	bounded := connections.Listen(permitted{inner, s.permits}, connections.Config{Max: maxConnections, MaxPerHolder: maxConnectionsFrom, Stall: stall})
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout + bodyTimeout,
		WriteTimeout:      bodyTimeout + answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateNew && within(s.proxies, addressOf(c.RemoteAddr().String())) {
				remote := c.RemoteAddr().String()
				bounded.Assign(c.LocalAddr().String(), remote, connections.Holder{Class: classProxy, Name: remote})
			}
		},
	}, bounded
}

// untilEnd serves until ctx ends, and then finishes the requests in progress.
func untilEnd(ctx context.Context, server *http.Server, serve func() error) error {
	if err := connections.Serve(ctx, server, stopTimeout, serve); err != nil {
		return fmt.Errorf("serving ACME clients: %w", err)
	}
	return nil
}
