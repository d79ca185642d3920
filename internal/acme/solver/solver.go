// Package solver defines how challenges of ACME servers are solved. Each way is
// a package below it.
package solver

import (
	"context"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// Solver solves challenges of one kind. Its methods return at once: a wait is an error or
// a delay, after which they are called again. It must be safe for concurrent use, and must
// not modify the objects of a Task.
type Solver interface {
	// Prepare returns where Present is going to put the answer, such as the name and the
	// zone of a DNS record; empty if CleanUp needs no such note. It has no side effects.
	// Its result is stored with the challenge before Present is called, so that CleanUp
	// finds the written record even if names point elsewhere by then, or the process was
	// killed in between.
	Prepare(ctx context.Context, task Task) (where string, err error)
	// Present makes the answer available. It is called again after errors, and
	// before self checks if what it made may have been removed; it changes
	// nothing if everything is there.
	Present(ctx context.Context, task Task) error
	// Check reports whether the CA would find the answer. Its error tells the user what is
	// missing.
	Check(ctx context.Context, task Task) (Found, error)
	// CleanUp removes what Present made, and nothing else. It returns no error if that is
	// already gone.
	CleanUp(ctx context.Context, task Task) error
}

// Task is a challenge to be solved.
type Task struct {
	Challenge *acmev1.Challenge
	// Issuer is the issuer of the challenge. It is nil if it was deleted, which
	// must not keep CleanUp from working where it can.
	Issuer cmv1.GenericIssuer
	// Secrets is the namespace of the Secrets that the solver names: that of an
	// Issuer, or the cluster resource namespace for ClusterIssuers.
	Secrets string
	// Where is the result of Prepare.
	Where string
	// Now is the present time. Challenge.Status.PresentedAt is when the answer was first
	// available.
	Now time.Time
}

// Found is the result of a self check that succeeded.
type Found struct {
	// Delay is how long to wait, from the first success on, before the CA is
	// asked to look.
	Delay time.Duration
	// Note, if not empty, is a remark for the user about the check, for example that the
	// public address could not be reached from here.
	Note string
}
