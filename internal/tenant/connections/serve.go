package connections

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// Serve runs a server with serve, such as server.Serve of a Listener, until ctx ends, and
// then shuts it down as Shutdown does: requests in progress are still answered. It returns
// other errors of serve.
func Serve(ctx context.Context, server *http.Server, grace time.Duration, serve func() error) error {
	server.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	server.ErrorLog = klog.NewStandardLogger("INFO")
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() { stopped <- Shutdown(server, grace) })()
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// Shutdown waits for requests in progress, for grace at most, and then closes the connections
// that remain.
func Shutdown(server *http.Server, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}
