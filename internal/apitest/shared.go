package apitest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/certplane/certplane/internal/run/server"
)

// Shared is a server that the tests of a package share, because a start costs more than most
// tests. Each test must use separate namespaces and names and leave nothing behind that
// could affect another test. Controllers drop Events that are not warnings when there are
// hundreds at once: a test that makes so many must not share a server with one that waits
// for an Event. It is safe for concurrent use.
type Shared struct {
	// Options change the default configuration, like the options of Start.
	Options []func(*server.Config)

	once   sync.Once
	server *Server
	err    error
}

// Main is the TestMain of a package with shared servers: it runs the tests,
// stops the servers and ends the process.
func Main(m *testing.M, servers ...*Shared) {
	code := m.Run()
	for _, s := range servers {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping a shared server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Start returns the server, which runs until the last test has ended. With -short, the test
// is skipped.
func (s *Shared) Start(t testing.TB) *Server {
	t.Helper()
	skipShort(t)
	s.once.Do(s.start)
	if s.err != nil {
		t.Fatalf("starting the shared server: %v", s.err)
	}
	return s.server
}

func (s *Shared) start() {
	dir, err := os.MkdirTemp("", "certplane-test-")
	if err != nil {
		s.err = err
		return
	}
	s.server = newServer(dir, s.Options...)
	s.err = s.server.run()
}

// Stop stops the server. It does nothing if no test has started it. Main calls
// it.
func (s *Shared) Stop() error {
	if s.server == nil {
		return nil
	}
	return errors.Join(s.server.stop(), os.RemoveAll(s.server.Config.DataDir))
}
