// Package frontend runs what a process serves by HTTP.
package frontend

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// FrontEnd is one thing that a process serves by HTTP: at a path of the API's
// port, or on a listener of its own.
type FrontEnd struct {
	// Name is what probes call it.
	Name string
	// Path is where Handler is on the API's port of "certplane serve", behind
	// authentication and authorization; if it ends with a slash, all paths that
	// begin with it. Empty is for none.
	Path    string
	Handler http.Handler
	// Serve serves on a listener of its own until ctx ends, and then lets those
	// finish that are being answered. Nil is for none.
	Serve func(ctx context.Context) error
	// StopTimeout is how long Run waits for them; 0 for as long as Serve takes.
	StopTimeout time.Duration
	// Ready is a probe: it reports why nothing can be answered yet. Nil is for a
	// front end that always can.
	Ready func(*http.Request) error
}

// Run serves front ends that have a listener while work runs, and ends them when
// work has ended, which may need them until then. The first error of either ends
// all and is returned.
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

// run is Serve, which is left behind when it does not end in time.
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
