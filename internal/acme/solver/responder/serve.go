package responder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/socket"
	"github.com/certplane/certplane/internal/tenant/connections"
)

// Limits for a client.
const (
	maxHeader   = 8 << 10
	readTimeout = 10 * time.Second
	idleTimeout = 5 * time.Second
	stopTimeout = 5 * time.Second
	// maxConnections is the maximum number of connections of a listener. One more
	// closes the oldest of the address that has the most.
	maxConnections = 1024
)

// Config configures a Responder.
type Config struct {
	Settings Settings
	// Index contains the challenges. The caller keeps it up to date.
	Index *live.Index
	// Inherited are the sockets that systemd has opened.
	Inherited socket.Inherited
	// Metrics is where the metrics are registered; nil is nowhere.
	Metrics prometheus.Registerer
	Clock   clock.Clock
	// UserAgent is the header of the checks of this program. Their requests do
	// not count as those of ACME servers.
	UserAgent string
}

// Responder answers the questions of ACME servers. It is safe for concurrent
// use.
type Responder struct {
	settings  Settings
	proxies   []netip.Prefix
	index     *live.Index
	metrics   metrics
	clock     clock.Clock
	userAgent string

	waits waits
	place socket.Place
}

// New returns a Responder, which answers once Serve is called.
func New(cfg Config) (*Responder, error) {
	if err := cfg.Settings.Validate(); err != nil {
		return nil, err
	}
	proxies, err := cfg.Settings.proxies()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of HTTP-01: %w", err)
	}
	return &Responder{
		settings: cfg.Settings, proxies: proxies, index: cfg.Index,
		metrics: m, clock: cfg.Clock, userAgent: cfg.UserAgent,
		place: socket.Place{Server: "the responder for HTTP-01", Field: field + ".listen", Texts: cfg.Settings.Listen, Inherited: cfg.Inherited},
	}, nil
}

// Ready is a probe: it returns why no request can be answered yet.
func (r *Responder) Ready(req *http.Request) error { return r.place.Ready(req) }

// Serve listens and answers until ctx ends, and then finishes the requests in
// progress. It returns at once if an address cannot be listened on.
func (r *Responder) Serve(ctx context.Context) error {
	listeners, err := r.place.Open(ctx)
	if err != nil {
		return err
	}
	defer r.place.Close()
	klog.FromContext(ctx).Info("Answering HTTP-01 challenges", "addresses", r.settings.Listen)
	return r.serve(ctx, listeners)
}

func (r *Responder) serve(ctx context.Context, listeners []net.Listener) error {
	server := r.server(ctx)
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		bounded := connections.Listen(l, connections.Config{Max: maxConnections, Stall: readTimeout})
		group.Go(func() error {
			if err := server.Serve(bounded); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("answering HTTP-01 challenges at %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		return connections.Shutdown(server, stopTimeout)
	})
	return group.Wait()
}

func (r *Responder) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           r,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + maxWait,
		IdleTimeout:       idleTimeout,
		// Requests in progress are still answered when the process stops.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    klog.NewStandardLogger("INFO"),
		// "OPTIONS *" is a path like all others.
		DisableGeneralOptionsHandler: true,
	}
}
