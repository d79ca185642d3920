package responder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/socket"
)

// localTimeout is how long the answer of this process may take. It is more than
// a question can wait for a challenge.
const localTimeout = 5 * time.Second

// errOff is the error of all challenges while nothing answers.
var errOff = errors.New(field + `.listen is empty, so nothing answers HTTP-01 challenges here: set it to an address such as ":80", or to one to which a web server passes requests for ` + selfcheck.Path)

// Solver returns the solver of HTTP-01 challenges that this Responder answers.
// public checks the public addresses.
func (r *Responder) Solver(public selfcheck.HTTP) solver.Solver {
	return &responderSolver{responder: r, public: public}
}

type responderSolver struct {
	responder *Responder
	public    selfcheck.HTTP
	fallback  selfcheck.Fallback
}

// Prepare implements solver.Solver. Nothing is written anywhere.
func (*responderSolver) Prepare(context.Context, solver.Task) (string, error) { return "", nil }

// Present implements solver.Solver. The index has the challenge already.
func (s *responderSolver) Present(context.Context, solver.Task) error {
	if s.responder.settings.Off() {
		return errOff
	}
	return nil
}

// Check implements solver.Solver.
func (s *responderSolver) Check(ctx context.Context, task solver.Task) (solver.Found, error) {
	if err := s.Present(ctx, task); err != nil {
		return solver.Found{}, err
	}
	return s.fallback.Check(ctx, s.responder.settings.SelfCheck, task, s.checkOwn, s.public.Check)
}

// CleanUp implements solver.Solver. The index removes the challenge on its own.
func (s *responderSolver) CleanUp(_ context.Context, task solver.Task) error {
	s.fallback.Forget(task.Challenge.UID)
	return nil
}

// checkOwn asks at all addresses of this process.
func (s *responderSolver) checkOwn(ctx context.Context, task solver.Task) (solver.Found, error) {
	addresses, err := s.responder.place.Addresses()
	if err != nil {
		return solver.Found{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	for i, address := range addresses {
		dial := func(ctx context.Context) (net.Conn, error) { return socket.Dial(ctx, address) }
		if err := s.public.CheckAt(ctx, task, dial); err != nil {
			return solver.Found{}, fmt.Errorf("the built-in responder does not answer at %s.listen[%d]: %w", field, i, err)
		}
	}
	return solver.Found{}, nil
}
