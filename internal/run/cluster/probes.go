package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// probeTimeout is how long a client may take to send the header of its request.
const probeTimeout = 10 * time.Second

// probes answers /healthz, which reports whether the process answers, and /readyz, which
// reports whether the controllers could work now, with the lease or waiting for it, and
// whether their front ends are ready. It answers for as long as the process lives, also
// while the API is away: restarting the process would not help there.
type probes struct {
	// ready has the checks of the controllers that run; nil if none do.
	ready atomic.Pointer[map[string]healthz.Checker]
}

// serve answers at address until stop is called.
func (p *probes) serve(ctx context.Context, address string) (stop func(), err error) {
	if address == frontend.Off {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("health.bindAddress: %w", err)
	}
	mux := http.NewServeMux()
	for path, handler := range map[string]http.Handler{
		"/healthz": &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}},
		"/readyz":  http.HandlerFunc(p.readyz),
	} {
		mux.Handle(path, http.StripPrefix(path, handler))
		mux.Handle(path+"/", http.StripPrefix(path, handler))
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: probeTimeout, IdleTimeout: probeTimeout, MaxHeaderBytes: 1 << 16}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) }) // it ends when it is closed
	return func() { server.Close(); served.Wait() }, nil
}

func (p *probes) readyz(w http.ResponseWriter, r *http.Request) {
	checks := map[string]healthz.Checker{"controllers": func(*http.Request) error {
		return errors.New("the controllers have not started")
	}}
	if running := p.ready.Load(); running != nil {
		checks = *running
	}
	(&healthz.Handler{Checks: checks}).ServeHTTP(w, r)
}

// report has /readyz report on this manager and these front ends until stop is called.
func (p *probes) report(mgr ctrl.Manager, frontEnds []frontend.FrontEnd) (stop func(), err error) {
	var started atomic.Bool
	checks := map[string]healthz.Checker{"caches": func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !started.Load() || !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}}
	for _, f := range frontEnds {
		if f.Ready != nil {
			checks[f.Name] = f.Ready
		}
	}
	p.ready.Store(&checks)
	err = mgr.Add(controllermanager.Everywhere{Runnable: manager.RunnableFunc(func(context.Context) error { started.Store(true); return nil })})
	return func() { p.ready.Store(nil) }, err
}
