// Package crlserver serves certificate revocation lists to everybody, by plain HTTP: a list is
// signed, and a list that needed a certificate could not be checked for that one.
package crlserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

const (
	// fresh is how long proxies and clients may keep a list; not past its end.
	fresh = 5 * time.Minute
	// unknownFresh is how long they may keep that a list does not exist, in seconds.
	unknownFresh = "60"
	retryAfter   = "60"
)

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
	requests *prometheus.CounterVec
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
	return &Server{Config: cfg, requests: requests}, nil
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
		// Requests in progress are still answered when the process stops.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    klog.NewStandardLogger("INFO"),
	}
	klog.FromContext(ctx).Info("Serving revocation lists by plain HTTP", "address", listener.Addr().String())
	if err := connections.Serve(ctx, server, stopTimeout, func() error { return server.Serve(bounded) }); err != nil {
		return fmt.Errorf("serving revocation lists: %w", err)
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.WithLabelValues(strconv.Itoa(s.answer(w, r))).Inc()
}

// answer answers a request, and returns the code.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) (code int) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	id, isList := strings.CutSuffix(strings.TrimPrefix(r.URL.EscapedPath(), "/"), ".crl")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		return refuse(w, http.StatusMethodNotAllowed, "no-store")
	case len(r.URL.EscapedPath()) > maxPath:
		return refuse(w, http.StatusRequestURITooLong, "no-store")
	case sizeOf(r.Header) > maxHeader:
		return refuse(w, http.StatusRequestHeaderFieldsTooLarge, "no-store")
	case r.URL.RawQuery != "" || r.URL.ForceQuery || r.ContentLength != 0:
		return refuse(w, http.StatusBadRequest, "no-store")
	case !isList || strings.Contains(id, "/"):
		return refuse(w, http.StatusNotFound, "public, max-age="+unknownFresh)
	}
	list, now := s.Lists.Get(id), s.Now()
	switch {
	case list == nil:
		return refuse(w, http.StatusNotFound, "public, max-age="+unknownFresh)
	case !list.Usable(now):
		header.Set("Retry-After", retryAfter)
		return refuse(w, http.StatusServiceUnavailable, "no-store")
	}
	served := list.Served
	tag := `"` + strconv.FormatInt(served.Number, 10) + `"`
	header.Set("Etag", tag)
	header.Set("Last-Modified", served.ThisUpdate.UTC().Format(http.TimeFormat))
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(min(fresh, served.NextUpdate.Sub(now)).Seconds())))
	if isKnown(r, tag, served.ThisUpdate) {
		w.WriteHeader(http.StatusNotModified)
		return http.StatusNotModified
	}
	header.Set("Content-Type", "application/pkix-crl")
	header.Set("Content-Length", strconv.Itoa(len(list.DER)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(list.DER) // the client has gone
	}
	return http.StatusOK
}

// sizeOf returns the size of header fields in bytes.
func sizeOf(header http.Header) (size int) {
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(": \r\n") + len(value)
		}
	}
	return size
}

// isKnown reports whether the client has the list (RFC 9110 section 13.2.2).
func isKnown(r *http.Request, tag string, modified time.Time) bool {
	if match := r.Header.Get("If-None-Match"); match != "" {
		for known := range strings.SplitSeq(match, ",") {
			if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == tag || known == "*" {
				return true
			}
		}
		return false
	}
	since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && !modified.After(since)
}

// refuse answers with a code and a text of a few bytes.
func refuse(w http.ResponseWriter, code int, cache string) int {
	text := map[int]string{http.StatusNotFound: "not found"}[code]
	if text == "" {
		text = strings.ToLower(http.StatusText(code))
	}
	w.Header().Set("Cache-Control", cache)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // the client has gone
	return code
}
