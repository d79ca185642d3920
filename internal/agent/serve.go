package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
)

// serve answers on the metrics' address until ctx ends. The channel has a
// value if that ends before.
func (a *agent) serve(ctx context.Context) (<-chan error, error) {
	ended := make(chan error, 1)
	if a.cfg.Metrics.BindAddress == off {
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
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		for _, pod := range a.board.Host().Pods {
			if !pod.Ready() {
				http.Error(w, pod.Namespace+"/"+pod.Name+": "+pod.Missing(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
