package tlsalpn

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/socket"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/tenant/connections"
)

const (
	// handshakeTimeout is how long a connection can last.
	handshakeTimeout = 10 * time.Second
	// maxConnections is the maximum number of connections of a listener. One more
	// closes the oldest of the address that has the most.
	maxConnections = 1024
	// acceptPause is the wait after connections could not be accepted, as when
	// there are too many open files.
	acceptPause = 100 * time.Millisecond
)

// Config configures a Server.
type Config struct {
	Settings Settings
	// Index contains the challenges. The caller keeps it up to date.
	Index *live.Index
	// Inherited are the sockets that systemd has opened.
	Inherited socket.Inherited
	// Metrics is where the metrics are registered; nil is nowhere.
	Metrics prometheus.Registerer
	Clock   clock.Clock
}

// Server answers the validations of ACME servers. It is safe for concurrent use.
type Server struct {
	settings Settings
	index    *live.Index
	metrics  metrics
	clock    clock.Clock
	key      crypto.Signer // of all certificates

	place socket.Place
}

// New returns a Server, which answers once Serve is called.
func New(cfg Config) (*Server, error) {
	if err := cfg.Settings.Validate(); err != nil {
		return nil, err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of TLS-ALPN-01: %w", err)
	}
	return &Server{
		settings: cfg.Settings, index: cfg.Index, metrics: m, clock: cfg.Clock, key: key,
		place: socket.Place{Server: "the server for TLS-ALPN-01", Field: field + ".listen", Texts: cfg.Settings.Listen, Inherited: cfg.Inherited},
	}, nil
}

// only answers clients that offer nothing but validation.
func (s *Server) only(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	known := s.index.ServerName(hello.ServerName)
	if !slices.Equal(hello.SupportedProtos, []string{Protocol}) || len(known) == 0 {
		return refusal(), nil
	}
	// Of several challenges for a name, the oldest is answered: validations do not
	// identify their challenge.
	certificate, err := newCertificate(known[0], s.key, s.clock.Now())
	if err != nil {
		return nil, err
	}
	config := refusal()
	config.Certificates = []tls.Certificate{*certificate}
	return config, nil
}

// refusal returns a configuration without a certificate. Go then ends the
// handshake with the alert unrecognized_name, or, with another protocol, with
// no_application_protocol.
func refusal() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{Protocol}, SessionTicketsDisabled: true}
}

// Ready is a probe: it returns why no connection can be answered yet.
func (s *Server) Ready(req *http.Request) error { return s.place.Ready(req) }

// Serve listens and answers until ctx ends. It returns at once if an address
// cannot be listened on.
func (s *Server) Serve(ctx context.Context) error {
	listeners, err := s.place.Open(ctx)
	if err != nil {
		return err
	}
	defer s.place.Close()
	klog.FromContext(ctx).Info("Answering TLS-ALPN-01 challenges", "addresses", s.settings.Listen)
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { socket.Close(listeners) })()
	for _, l := range listeners {
		group.Go(func() error {
			return s.serve(ctx, connections.Listen(l, connections.Config{Max: maxConnections, Stall: handshakeTimeout}))
		})
	}
	return group.Wait()
}

// serve answers at one listener until ctx ends, and returns when all connections
// are closed.
func (s *Server) serve(ctx context.Context, l net.Listener) error {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		connection, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = connection.Close() // it was not read
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("answering TLS-ALPN-01 challenges at %s: %w", l.Addr(), err)
		case err != nil:
			klog.FromContext(ctx).Error(err, "Cannot accept a connection for TLS-ALPN-01")
			s.pause(ctx)
			continue
		}
		open.Go(func() { s.handshake(ctx, connection) })
	}
}

func (s *Server) pause(ctx context.Context) {
	timer := s.clock.NewTimer(acceptPause)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// handshake does what a validation needs, and closes the connection.
func (s *Server) handshake(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	connection := tls.Server(raw, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: s.only})
	result := hit
	if err := connection.HandshakeContext(ctx); err != nil {
		result = refused
	} else {
		_ = connection.Close() // says so to the client; nothing else is served
	}
	s.metrics.handshakes.WithLabelValues(result).Inc()
	klog.FromContext(ctx).V(4).Info("Ended a handshake for TLS-ALPN-01", "result", result, "remote", raw.RemoteAddr().String())
}
