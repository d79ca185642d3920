package selfcheck

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/acme/solver"
)

// maxAnswered is for how many challenges a Fallback remembers a wrong answer.
const maxAnswered = 4096

// Fallback decides when the answer of this process is enough, since the public
// address is out of reach. It is safe for concurrent use, and its zero value is
// ready.
type Fallback struct {
	mu sync.Mutex
	// answered is when the public address last gave a wrong answer. Then it can
	// be reached, so that the time without contact begins again.
	answered map[types.UID]time.Time
}

// Look is one of the two checks of a policy.
type Look func(context.Context, solver.Task) (solver.Found, error)

// Check does what a policy asks for. own checks this process, public the public
// address.
func (f *Fallback) Check(ctx context.Context, policy Policy, task solver.Task, own, public Look) (solver.Found, error) {
	if policy == None {
		return solver.Found{}, nil
	}
	if found, err := own(ctx, task); err != nil || policy == Local {
		return found, err
	}
	found, err := public(ctx, task)
	if ctx.Err() != nil {
		return solver.Found{}, context.Cause(ctx) // this says nothing about the address
	}
	return f.judge(task, found, err)
}

// judge returns the result of a check of the public address, or success with a
// note if that address was out of reach for UnreachableFor.
func (f *Fallback) judge(task solver.Task, found solver.Found, err error) (solver.Found, error) {
	switch {
	case err == nil:
		f.Forget(task.Challenge.UID)
		return found, nil
	case !IsUnreachable(err):
		f.remember(task)
		return found, err
	case f.without(task) < UnreachableFor:
		return found, err
	}
	return solver.Found{Note: fmt.Sprintf("the public address cannot be reached from here, but this server answers, so the ACME server is asked to look: %v", err)}, nil
}

// without returns for how long there was no contact with the public address.
func (f *Fallback) without(task solver.Task) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	presented := Presented(task)
	if at, ok := f.answered[task.Challenge.UID]; ok {
		return min(presented, task.Now.Sub(at))
	}
	return presented
}

func (f *Fallback) remember(task solver.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answered == nil || len(f.answered) >= maxAnswered {
		f.answered = map[types.UID]time.Time{}
	}
	f.answered[task.Challenge.UID] = task.Now
}

// Forget removes the data about a challenge.
func (f *Fallback) Forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.answered, uid)
}
