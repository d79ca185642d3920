// Package frontend lists and runs what processes serve over HTTP.
package frontend

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Off as an address means that nothing is served.
const Off = "0"

// CheckAddress returns an error that names field if address cannot be listened
// on and is not Off.
func CheckAddress(field, address string) error {
	if address == Off {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%s: %q is not HOST:PORT, nor 0 for none", field, address)
	}
	return nil
}

// FrontEnd is one thing that a process serves over HTTP: at a path of the API's
// port, or on its own listener.
type FrontEnd struct {
	// Name is its name in probes.
	Name string
	// Path is where Handler is on the API's port of "certplane serve", behind
	// authentication and authorization. If it ends with a slash, it includes
	// all paths that begin with it. If it is empty, Handler is not served
	// there.
	Path    string
	Handler http.Handler
	// Serve serves on its own listener until ctx ends, and then finishes the
	// requests in progress. It can be nil.
	Serve func(ctx context.Context) error
	// StopTimeout is how long Run waits for these; 0 means as long as Serve
	// takes.
	StopTimeout time.Duration
	// Ready is a probe: it returns why no request can be answered yet. It is
	// nil for a front end that is always ready.
	Ready func(*http.Request) error
}

// Run serves front ends that have a listener while work runs. It stops them
// when work has ended, since work may need them until then. The first error of
// either stops everything and is returned.
func Run(ctx context.Context, all []FrontEnd, work func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	for _, f := range all {
		if f.Serve != nil {
			group.Go(func() error { return f.run(serving) })
		}
	}
	group.Go(func() error {
		defer stop()
		return work(ctx)
	})
	return group.Wait()
}

// run runs Serve, and abandons it if it does not end in time.
func (f FrontEnd) run(ctx context.Context) error {
	if f.StopTimeout == 0 {
		return f.Serve(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(f.StopTimeout):
		return nil
	}
}
