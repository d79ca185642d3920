// Package apitest runs the real server for tests: in this process, with a
// real etcd in a temporary folder, on a free loopback port.
package apitest

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/certplane/certplane/internal/run/server"
)

// startTimeout is how long a server may take to be ready on a busy machine.
const startTimeout = 3 * time.Minute

// gcPercent makes garbage collections rare: they are a third of the work of a
// start, and no test needs the memory.
const gcPercent = 400

// threeSteps is the environment variable with which "make test-three-steps" has
// servers approve and sign requests only after they are stored.
const threeSteps = "CERTPLANE_TEST_THREE_STEPS"

// IssueOnCreate is for tests that are about requests which are answered in the calls
// that create them.
func IssueOnCreate(cfg *server.Config) { cfg.API.IssueOnCreate = true }

// Server is a running server. Tests talk to it as any client would.
type Server struct {
	// Config is the configuration of the server; Config.DataDir is its folder.
	Config server.Config
	// URL is the address of the API.
	URL string
	// Kubeconfig is a file with all rights.
	Kubeconfig string
	// Inside is how parts of the server reach the API, with all rights.
	Inside *rest.Config

	stop func() error
}

// Start runs a server until the test ends. Each option changes the default
// configuration. With -short, the test is skipped.
func Start(t testing.TB, options ...func(*server.Config)) *Server {
	t.Helper()
	skipShort(t)
	s := newServer(t.TempDir(), options...)
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stopping the server: %v", err)
		}
	})
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	return s
}

func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a server, which -short leaves out")
	}
}

func newServer(dir string, options ...func(*server.Config)) *Server {
	cfg := server.DefaultConfig()
	cfg.DataDir = dir
	cfg.Serving.Listen = "127.0.0.1:0"
	cfg.ACME.AllowLoopback = true // the CAs of tests listen there
	cfg.PodSigners.Install = nil  // a test names the ready-made Signers that it is about
	if os.Getenv(threeSteps) != "" {
		cfg.API.IssueOnCreate = false
	}
	for _, option := range options {
		option(&cfg)
	}
	return &Server{Config: cfg, stop: func() error { return nil }}
}

// Restart stops the server and starts it again on the same data, at a new
// address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Fatalf("stopping the server: %v", err)
	}
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Stop stops the server before the test ends.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Errorf("stopping the server: %v", err)
	}
}

// RestartFails stops the server and starts it again, which must fail. It
// returns the error.
func (s *Server) RestartFails(t testing.TB) error {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Fatalf("stopping the server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	return server.Run(ctx, s.Config, func(server.Ready) {
		t.Error("the server started")
		cancel()
	})
}

// Admin returns a client configuration of the group system:masters, without
// client-side rate limits.
func (s *Server) Admin(t testing.TB) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatalf("reading the admin kubeconfig: %v", err)
	}
	cfg.QPS = -1
	return cfg
}

// As returns a client configuration that impersonates a user. An authenticated
// user is in group system:authenticated without it being named.
func (s *Server) As(t testing.TB, user string, groups ...string) *rest.Config {
	t.Helper()
	cfg := s.Admin(t)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return cfg
}

// Client makes a typed client.
func Client(t testing.TB, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return client
}

// run starts the server and waits until it is ready.
func (s *Server) run() error {
	debug.SetGCPercent(gcPercent)
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan server.Ready, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, s.Config, func(r server.Ready) { ready <- r })
	}()
	s.stop = func() error {
		cancel()
		err := <-ended
		ended <- nil // a second stop finds the server stopped
		return err
	}
	select {
	case r := <-ready:
		s.URL, s.Kubeconfig, s.Inside = r.URL, r.Kubeconfig, r.Inside
		return nil
	case err := <-ended:
		cancel()
		ended <- nil // for stop
		return fmt.Errorf("the server ended before it was ready: %w", err)
	case <-time.After(startTimeout):
		cancel()
		return fmt.Errorf("the server was not ready within %v", startTimeout)
	}
}
