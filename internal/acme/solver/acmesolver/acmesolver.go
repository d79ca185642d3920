// Package acmesolver answers one HTTP-01 challenge, in a separate process.
package acmesolver

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/tenant/connections"
)

// directory is the path below which CAs ask for answers.
const directory = "/.well-known/acme-challenge"

// The limits of the server. The memory of a solver's pod is small.
const (
	headerTimeout  = 32 * time.Second
	stall          = 32 * time.Second
	stopTimeout    = 5 * time.Second
	maxHeader      = 16 << 10
	maxConnections = 512
)

// Challenge is the challenge to answer.
type Challenge struct {
	// Domain is the name or IP address that is validated.
	Domain string
	// Token is the last part of the path.
	Token string
	// Key is the answer.
	Key string
}

// Options configure what a solver serves, and where.
type Options struct {
	Challenge
	// ListenPort is the port on which it listens, on all addresses. 0 is a free one.
	ListenPort int
	// Listening is called with the address once it listens. It may be nil.
	Listening func(net.Addr)
}

// Run serves until ctx ends.
func Run(ctx context.Context, options Options) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf(":%d", options.ListenPort))
	if err != nil {
		return fmt.Errorf("listening on port %d: %w", options.ListenPort, err)
	}
	if options.Listening != nil {
		options.Listening(listener.Addr())
	}
	return serve(ctx, connections.Listen(listener, connections.Config{Max: maxConnections, Stall: stall}), Handler(options.Challenge))
}

// serve serves until ctx ends, and then lets open requests end.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		IdleTimeout:       headerTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // whoever can reach it could fill the log
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(ending) != nil { // a client is too slow
			_ = server.Close()
		}
	})
	err := server.Serve(listener)
	if stop() {
		return fmt.Errorf("serving: %w", err)
	}
	<-stopped
	return nil
}

// Handler returns what answers for a challenge. Every request is answered at
// once, whatever its method, and nothing is logged.
func Handler(ch Challenge) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.EscapedPath()
		switch {
		case asked == "/" || asked == "/healthz":
			w.WriteHeader(http.StatusOK)
		case path.Dir(asked) == directory && strings.EqualFold(hostOf(r.Host), ch.Domain) && path.Base(asked) == ch.Token:
			w.Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
			_, _ = io.WriteString(w, ch.Key)
		default:
			http.NotFound(w, r)
		}
	})
}

// hostOf returns the host of a Host header, without its port and without the
// brackets of IPv6 addresses.
func hostOf(header string) string {
	host, _, err := net.SplitHostPort(header)
	if err != nil { // it has no port
		host = header
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
