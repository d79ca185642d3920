package webhook

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

	"github.com/certplane/certplane/internal/connections"
)

// Bounds on what a client may take. The largest review arrives well within
// readTimeout in one data centre.
const (
	readTimeout = 10 * time.Second
	idleTimeout = 2 * time.Minute
	stopTimeout = 5 * time.Second
	stall       = 10 * time.Second
	// maxConnections is how many there are, maxConnectionsFrom how many of one
	// address. One more closes the oldest of the address that has the most.
	maxConnections, maxConnectionsFrom = 1000, 300
)

// Server serves a handler by HTTPS, with the certificate that it was given
// last.
type Server struct {
	// Address is where to listen, HOST:PORT.
	Address string
	// Handler answers.
	Handler http.Handler
	// Metrics tell when the certificate ends; nil if nobody is to know.
	Metrics *Metrics
	// Clients says whose connections are taken; the zero value takes all.
	Clients Clients

	certificate atomic.Pointer[tls.Certificate]
}

// Use serves this certificate from the next connection on.
func (s *Server) Use(certificate *tls.Certificate) {
	s.certificate.Store(certificate)
	s.Metrics.serves(certificate)
}

var errNoCertificate = errors.New("there is no serving certificate yet")

// Ready is a probe: nobody can be answered without a certificate.
func (s *Server) Ready(*http.Request) error {
	if s.certificate.Load() == nil {
		return errNoCertificate
	}
	return nil
}

// Start serves until ctx ends, and then lets those finish who are being answered.
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
		// One review a connection at a time, so that what one client takes is
		// bounded by its connections.
		TLSConfig: s.Clients.require(&tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.getCertificate}),
		// Who is being answered when the process stops gets the answer.
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

// shutdown lets those finish who are being answered.
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
