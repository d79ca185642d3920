// Package explain explains the state of certificate requests, Certificates and
// signers: it gathers the facts from an API, and decides what they mean. It
// writes nothing.
//
// Decisions that depend only on the request use the code of the controllers: the
// approver's policy and the profile of the signer, built in or declared. Permissions are
// checked with the API, like any client can.
package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policies"
)

// Query names the object to explain, and the caller.
type Query struct {
	// Name is the name of the object, Namespace its namespace, if it has one.
	Name, Namespace string
	// Kubectl is the caller's command line of kubectl. Flags are the flags with which
	// kubectl and certplane's verbs use the same server as the same user.
	Kubectl, Flags []string
	// Controllers is the namespace of the accounts of certplane's controllers; empty for
	// the usual namespaces.
	Controllers string
	// Now is the current time.
	Now time.Time
}

// controllers returns the namespaces where certplane's controllers can run.
func (q Query) controllers(ctx context.Context, api Reader) []string {
	if q.Controllers != "" {
		return []string{q.Controllers}
	}
	return policies.ControllerNamespaces(ctx, api)
}

// Certplane returns the command line of a verb of certplane for the same
// server.
func (q Query) Certplane(words ...string) []string {
	return append(append([]string{"certplane"}, words...), q.Flags...)
}

// CertplaneOn returns such a command line for objects with names that other users have
// chosen.
func (q Query) CertplaneOn(names []string, words ...string) []string {
	return print.Command(append([]string{"certplane"}, words...), names, q.Flags...)
}

// kubectl returns the command line of kubectl for the same server.
func (q Query) kubectl(words ...string) []string {
	return slices.Concat(q.Kubectl, q.Flags, words)
}

// typedBy returns the query for commands that the caller runs or, without the right,
// another user. For another user it has no flags, because that user needs different ones.
func (q Query) typedBy(mayCaller Result) Query {
	if mayCaller == No {
		q.Flags = nil
	}
	return q
}

// NotFoundError reports that the object to explain does not exist.
type NotFoundError struct {
	Message string
	// Next holds steps that find the object.
	Next []Step
	// KindMissing is true if the server does not serve the kind.
	KindMissing bool
}

func (e *NotFoundError) Error() string { return e.Message }

// ReadError reports that an object could not be read. A missing permission is an error
// only for the object to explain.
type ReadError struct {
	// Doing is the attempted operation.
	Doing string
	Err   error
}

func (e *ReadError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }

func (e *ReadError) Unwrap() error { return e.Err }

// readError wraps the error of an API; nil stays nil.
func readError(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &ReadError{doing, err}
}
