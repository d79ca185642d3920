package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// startHooksTimeout bounds how long a stopping server waits for the end of its
// start.
const startHooksTimeout = 10 * time.Second

// letStartEnd makes a server that is stopped while it starts finish the start
// hook of custom resources first. The library ends the process when a hook
// fails, and this one fails when it is stopped.
func letStartEnd(server *genericapiserver.GenericAPIServer) error {
	const hook = "/readyz/poststarthook/crd-informer-synced"
	err := server.AddPreShutdownHook("let-start-end", func() error {
		_ = wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, startHooksTimeout, true,
			func(context.Context) (bool, error) {
				return statusOf(server.UnprotectedHandler(), hook) == http.StatusOK, nil
			})
		return nil
	})
	if err != nil {
		return fmt.Errorf("adding the shutdown hook: %w", err)
	}
	return nil
}

// statusOf asks handler for path, inside this process.
func statusOf(handler http.Handler, path string) int {
	request, err := http.NewRequest(http.MethodGet, path, http.NoBody)
	if err != nil {
		return http.StatusBadRequest
	}
	answer := &statusOnly{header: http.Header{}, code: http.StatusOK}
	handler.ServeHTTP(answer, request)
	return answer.code
}

// statusOnly is a response of which nothing but the status is of interest.
type statusOnly struct {
	header http.Header
	code   int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(code int)        { s.code = code }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
