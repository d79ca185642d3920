package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
)

// serve serves the metrics' address until ctx ends. The channel receives a
// value if serving ends before that.
func (a *agent) serve(ctx context.Context) (<-chan error, error) {
	ended := make(chan error, 1)
	if a.cfg.Metrics.BindAddress == disabledAddress {
		return ended, nil
	}
	listener, err := net.Listen("tcp", a.cfg.Metrics.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("metrics.bindAddress: %w", err)
	}
	server := &http.Server{Handler: a.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			ended <- fmt.Errorf("serving metrics: %w", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	klog.FromContext(ctx).Info("Serving metrics", "address", listener.Addr().String())
	return ended, nil
}

func (a *agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { a.ready(w, checks...) })
	for _, c := range checks {
		mux.HandleFunc("GET /readyz/"+c.name, func(w http.ResponseWriter, _ *http.Request) { a.ready(w, c) })
	}
	return mux
}

// ready runs the checks. If one fails, the answer has a line for each check.
func (a *agent) ready(w http.ResponseWriter, checks ...check) {
	var lines []string
	failed := false
	for _, c := range checks {
		if problem := c.problem(a); problem != "" {
			lines, failed = append(lines, "[-]"+c.name+" failed: "+problem), true
		} else {
			lines = append(lines, "[+]"+c.name+" ok")
		}
	}
	if failed {
		http.Error(w, strings.Join(lines, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// check is one part of readiness.
type check struct {
	name    string
	problem func(*agent) string
}

// serverGrace is how long the server may be away. Files stay fresh for longer
// than that: a client that needs only the files uses the check "files".
const serverGrace = 2 * time.Minute

var checks = []check{
	{"files", func(a *agent) string {
		a.mu.Lock()
		defer a.mu.Unlock()
		return strings.Join(missing(a.board.Host(), a.wanted), "; ")
	}},
	{"manifests", func(a *agent) string { return a.board.Host().Manifests }},
	{"identity", func(a *agent) string {
		host := a.board.Host()
		return cmp.Or(host.Start, host.IdentityProblem(a.clock.Now()), host.Registration)
	}},
	{"server", func(a *agent) string {
		state := a.contact.State()
		if state.Error == "" || !state.Refused && a.clock.Since(state.Since) < serverGrace {
			return ""
		}
		return "server " + state.URL + ": " + state.Error
	}},
}
