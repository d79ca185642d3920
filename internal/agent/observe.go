package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/agent/status"
)

// observeUntilStopped repeatedly updates the status of the host's connection to
// its server, and once more when the agent stops.
func (a *agent) observeUntilStopped(ctx context.Context) {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group wait.Group
	group.StartWithContext(run, func(ctx context.Context) {
		ticker := time.NewTicker(poll)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			case <-a.contact.News():
			}
			a.observe(ctx)
		}
	})
	a.closers = append(a.closers, func() {
		cancel()
		group.Wait()
		a.observe(run)
	})
}

// observe updates the status of the host's connection to its server, and logs
// what has changed.
func (a *agent) observe(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	registration := ""
	identity := a.board.Host().Identity
	if a.identity != nil {
		registration = a.node.Problem()
		identity = status.Identity{}
		if own := a.identity.Certificate(); own != nil {
			identity = status.Identity{User: own.Subject.CommonName, NotAfter: &own.NotAfter}
		}
	}
	if err := a.board.Observe(a.server(), identity, registration); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot report the status")
	}
	a.log(ctx)
}

// server returns the outcome of the last calls. The last contact can be that of
// an earlier agent.
func (a *agent) server() status.Server {
	state := a.contact.State()
	server := status.Server{URL: state.URL, Error: state.Error, LastContact: a.board.Host().Server.LastContact}
	if !state.LastContact.IsZero() {
		server.LastContact = &state.LastContact
	}
	if !state.Since.IsZero() {
		server.Since = &state.Since
	}
	return server
}

// log logs each problem once, and its end once.
func (a *agent) log(ctx context.Context) {
	host := a.board.Host()
	if host.Start != "" {
		host.Pods = nil // they are from an earlier agent
	}
	wrong := map[string]bool{}
	for _, problem := range host.Problems(a.clock.Now()) {
		if !problem.Waiting {
			wrong[problem.Text] = true
		}
	}
	logger := klog.FromContext(ctx)
	for _, text := range slices.Sorted(maps.Keys(wrong)) {
		if !a.logged[text] {
			logger.Error(nil, "Problem found", "problem", text)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(a.logged)) {
		if !wrong[text] {
			logger.Info("Problem resolved", "problem", text)
		}
	}
	a.logged = wrong
}
