// Package crlserver serves certificate revocation lists to everybody, by plain HTTP: a list is
// signed, and a list that needed a certificate could not be checked for that one.
package crlserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/process/collector"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/tenant/connections"
)

// Limits for a client.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 60 * time.Second
	idleTimeout  = 5 * time.Second
	stopTimeout  = 5 * time.Second
	stall        = 10 * time.Second
	// maxConnections is the maximum number of connections, and maxConnectionsFrom that of one
	// address. One more closes the oldest of the address that has the most.
	maxConnections, maxConnectionsFrom = 1000, 50
	maxPath                            = 256
	maxHeader                          = 8 << 10
)

// fresh is how long proxies and clients may keep a list; not past its end.
const fresh = 5 * time.Minute

// Config configures a Server.
type Config struct {
	// Address is where to listen, HOST:PORT. Field is its field in the configuration.
	Address, Field string
	Lists          *revocation.Lists
	// Await, if not nil, returns when the lists are read. Until then, nothing is served.
	Await func(context.Context) error
	Now   func() time.Time
	// Metrics is where the metrics are registered; nil is nowhere.
	Metrics prometheus.Registerer
}

// Server serves the lists. It is safe for concurrent use.
type Server struct {
	Config
	http.Handler
}

// New returns a server.
func New(cfg Config) (*Server, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane", Subsystem: "crl", Name: "requests_total",
		Help: "Number of requests for revocation lists by plain HTTP, by the code of the answer.",
	}, []string{"code"})
	if err := collector.Share(cfg.Metrics, &requests); err != nil {
		return nil, fmt.Errorf("registering its metrics: %w", err)
	}
	return &Server{cfg, promhttp.InstrumentHandlerCounter(requests, http.HandlerFunc(cfg.answer))}, nil
}

// Serve serves until ctx ends, and then finishes the requests in progress.
func (s *Server) Serve(ctx context.Context) error {
	if s.Await != nil && s.Await(ctx) != nil {
		return nil // ctx has ended
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Field, err)
	}
	bounded := connections.Listen(listener, connections.Config{Max: maxConnections, MaxPerHolder: maxConnectionsFrom, Stall: stall})
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader, // and some KiB more
	}
	klog.FromContext(ctx).Info("Serving revocation lists by plain HTTP", "address", listener.Addr().String())
	if err := connections.Serve(ctx, server, stopTimeout, func() error { return server.Serve(bounded) }); err != nil {
		return fmt.Errorf("serving revocation lists: %w", err)
	}
	return nil
}

// answer answers a request.
func (c Config) answer(w http.ResponseWriter, r *http.Request) {
	header, path := w.Header(), r.URL.EscapedPath()
	header.Set("X-Content-Type-Options", "nosniff")
	id, isList := strings.CutSuffix(strings.TrimPrefix(path, "/"), ".crl")
	fields := &bytes.Buffer{}
	_ = r.Header.Write(fields)
	list, now := c.Lists.Get(id), c.Now()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "no-store")
	case len(path) > maxPath:
		refuse(w, http.StatusRequestURITooLong, "no-store")
	case fields.Len() > maxHeader:
		refuse(w, http.StatusRequestHeaderFieldsTooLarge, "no-store")
	case r.URL.RawQuery != "" || r.URL.ForceQuery || r.ContentLength != 0:
		refuse(w, http.StatusBadRequest, "no-store")
	case !isList || list == nil:
		refuse(w, http.StatusNotFound, "public, max-age=60")
	case !list.Usable(now):
		header.Set("Retry-After", "60")
		refuse(w, http.StatusServiceUnavailable, "no-store")
	default:
		header.Set("Etag", fmt.Sprintf(`"%d"`, list.Served.Number))
		header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(min(fresh, list.Served.NextUpdate.Sub(now)).Seconds())))
		header.Set("Content-Type", "application/pkix-crl")
		r.Header.Del("Range") // a part of a list proves nothing
		http.ServeContent(w, r, "", list.Served.ThisUpdate, bytes.NewReader(list.DER))
	}
}

// refuse answers with a code and a text of a few bytes.
func refuse(w http.ResponseWriter, code int, cache string) {
	w.Header().Set("Cache-Control", cache)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, strings.ToLower(http.StatusText(code))) // the client has gone
}
