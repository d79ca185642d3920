package admissionwebhook

import (
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
	// maxConnections is the maximum number of connections, and
	// maxConnectionsFrom that of one address. One more closes the oldest of the
	// address that has the most.
	maxConnections, maxConnectionsFrom = 1000, 300
)

// Server serves a handler over HTTPS, with the certificate that it was last
// given.
type Server struct {
	// Address is where to listen, HOST:PORT.
	Address string
	// Handler answers the requests.
	Handler http.Handler
	// Metrics shows when the certificate expires. It can be nil.
	Metrics *Metrics
	// Clients selects the clients whose connections are accepted; the zero value accepts
	// all.
	Clients Clients

	certificate atomic.Pointer[tls.Certificate]
}

// Use sets the certificate for new connections.
func (s *Server) Use(certificate *tls.Certificate) {
	s.certificate.Store(certificate)
	s.Metrics.serves(certificate)
}

var errNoCertificate = errors.New("the serving certificate does not exist yet")

// Ready is a probe: without a certificate, no request can be answered.
func (s *Server) Ready(*http.Request) error {
	if s.certificate.Load() == nil {
		return errNoCertificate
	}
	return nil
}

// Start serves until ctx ends, and then finishes the requests in progress.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("webhook.bindAddress: %w", err)
	}
	bounded := connections.Listen(listener, connections.Config{Max: maxConnections, MaxPerHolder: maxConnectionsFrom, Stall: stall})
	server := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + answerTimeout,
		IdleTimeout:       idleTimeout,
		// A connection has one review at a time, so that what one client uses is
		// limited by its connections.
		TLSConfig: s.Clients.require(&tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.getCertificate}),
		// Requests in progress are still answered when the process stops.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    klog.NewStandardLogger("INFO"),
	}
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() { stopped <- shutdown(server) })()
	klog.FromContext(ctx).Info("Serving the admission webhook", "address", listener.Addr().String())
	if err := server.ServeTLS(bounded, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the admission webhook: %w", err)
	}
	return <-stopped
}

// shutdown finishes the requests in progress.
func shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}

func (s *Server) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := s.certificate.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNoCertificate
}
