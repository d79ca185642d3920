package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
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
	a.board.Observe(a.server(), identity, registration)
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

// A problem that comes and goes, or changes, is logged logBurst times in a row, and then
// once in logPause.
const (
	logBurst = 5
	logPause = time.Minute
)

// loggedProblem is the logged state of a problem.
type loggedProblem struct {
	text  string // empty if it says that the problem is resolved
	at    time.Time
	limit flowcontrol.PassiveRateLimiter
}

// log logs each problem once, and its end once.
func (a *agent) log(ctx context.Context) {
	host, now := a.board.Host(), a.clock.Now()
	if host.Start != "" {
		host.Pods = nil // they are from an earlier agent
	}
	wrong := map[string]string{}
	for _, problem := range host.Problems(now) {
		if !problem.Waiting {
			wrong[problem.Key] = problem.Text
		}
	}
	if err := a.board.Unwritten(); err != nil {
		wrong["status"] = "status: " + err.Error()
	}
	for key := range wrong {
		if a.logged[key] == nil {
			a.logged[key] = &loggedProblem{limit: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(float32(1/logPause.Seconds()), logBurst, a.clock)}
		}
	}
	logger := klog.FromContext(ctx)
	for _, key := range slices.Sorted(maps.Keys(a.logged)) {
		known, text := a.logged[key], wrong[key]
		if text == known.text {
			if text == "" && now.Sub(known.at) > logBurst*logPause { // the limit is as if new
				delete(a.logged, key)
			}
			continue
		}
		if !known.limit.TryAccept() {
			continue // said later, if it is still true then
		}
		if known.text != "" {
			logger.Info("Problem resolved", "problem", known.text)
		}
		if text != "" {
			logger.Error(nil, "Problem found", "problem", text)
		}
		known.text, known.at = text, now
	}
}
