// Package solvertest has what the tests of several solvers share.
package solvertest

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

// FreeAddress returns an address on loopback that nothing listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Server answers challenges.
type Server interface {
	Serve(context.Context) error
	Ready(*http.Request) error
}

// Serve runs a server until the test ends, and waits until it listens. The test
// fails if serving ends with an error.
func Serve(t testing.TB, s Server) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	Eventually(t, "the server listens", func() bool { return s.Ready(nil) == nil })
}

// Eventually waits until something is so.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// AssertError fails the test if an error has another text; none has the text "".
func AssertError(t testing.TB, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error\n%q, want\n%q", got, want)
	}
}
