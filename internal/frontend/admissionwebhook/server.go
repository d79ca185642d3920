package admissionwebhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/tenant/connections"
)

// Limits for a client. The largest review arrives well within readTimeout in
// one data centre.
const (
	readTimeout = 10 * time.Second
	idleTimeout = 2 * time.Minute
	stopTimeout = 5 * time.Second
	stall       = 10 * time.Second
	// bindAddress is the field of the configuration that sets the address of the admission
	// webhook.
	bindAddress = "webhook.bindAddress"
	// maxConnections is the maximum number of connections, and
	// maxConnectionsFrom that of one address. One more closes the oldest of the
	// address that has the most.
	maxConnections, maxConnectionsFrom = 1000, 300
)

// Server serves a handler over HTTPS, with the certificate that it was last
// given.
type Server struct {
	// Address is where to listen, HOST:PORT. Field is the field of the configuration that
	// sets it; empty means webhook.bindAddress.
	Address, Field string
	// Handler answers the requests.
	Handler http.Handler
	// Metrics shows when the certificate expires. It can be nil.
	Metrics *Metrics
	// Clients selects the clients whose connections are accepted; the zero value accepts
	// all.
	Clients Clients
	// Await, if not nil, returns when the handler can answer. Until then and until there is a
	// certificate, the server does not listen, so that connections are refused.
	Await func(context.Context) error
	// HTTP2 lets a client send many requests on one connection at the same time.
	HTTP2 bool

	certificate atomic.Pointer[tls.Certificate]
	listening   atomic.Bool
}

// Use sets the certificate for new connections.
func (s *Server) Use(certificate *tls.Certificate) {
	s.certificate.Store(certificate)
	s.Metrics.serves(certificate)
}

var (
	errNoCertificate = errors.New("the serving certificate does not exist yet")
	errNotListening  = errors.New("it does not listen yet: what it answers from has not been read")
)

// Ready is a probe: without a certificate, no request can be answered.
func (s *Server) Ready(*http.Request) error {
	if s.certificate.Load() == nil {
		return errNoCertificate
	}
	if s.Await != nil && !s.listening.Load() {
		return errNotListening
	}
	return nil
}

// certificatePoll is how often a server that does not listen yet looks for its certificate.
const certificatePoll = 20 * time.Millisecond

// wait returns when the server may listen, or false when ctx has ended.
func (s *Server) wait(ctx context.Context) (bool, error) {
	if s.Await == nil {
		return true, nil
	}
	if err := s.Await(ctx); err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, err
	}
	for s.certificate.Load() == nil {
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(certificatePoll):
		}
	}
	return true, nil
}

// protocols are those that clients may choose. With HTTP/1.1 a connection has one review at
// a time, so that what one client uses is limited by its connections.
func (s *Server) protocols() []string {
	if s.HTTP2 {
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}

// Start serves until ctx ends, and then finishes the requests in progress.
func (s *Server) Start(ctx context.Context) error {
	if may, err := s.wait(ctx); err != nil || !may {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(s.Field, bindAddress), err)
	}
	s.listening.Store(true)
	bounded := connections.Listen(listener, connections.Config{Max: maxConnections, MaxPerHolder: maxConnectionsFrom, Stall: stall})
	server := &http.Server{
		Handler:           s.Clients.refusing(s.Handler),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + answerTimeout,
		IdleTimeout:       idleTimeout,
		TLSConfig:         s.Clients.require(&tls.Config{MinVersion: tls.VersionTLS12, NextProtos: s.protocols(), GetCertificate: s.getCertificate}),
	}
	klog.FromContext(ctx).Info("Serving a webhook", "address", listener.Addr().String(), "configuredBy", cmp.Or(s.Field, bindAddress))
	if err := connections.Serve(ctx, server, stopTimeout, func() error { return server.ServeTLS(bounded, "", "") }); err != nil {
		return fmt.Errorf("serving the webhook at %s: %w", s.Address, err)
	}
	return nil
}

func (s *Server) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := s.certificate.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNoCertificate
}
