// Package explain explains the state of certificate requests, Certificates and
// signers: it gathers the facts from an API, and decides what they mean. It
// writes nothing.
//
// What depends only on the request is decided by the same code as in the
// controllers: the approver's policy and the profile of the signer, built in or
// declared. For what depends on permissions, the package asks the API, as any
// client can.
package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/policies"
)

// Query says what to explain, and for which caller.
type Query struct {
	// Name is the name of the object, Namespace its namespace, if it has one.
	Name, Namespace string
	// Kubectl is how the caller calls kubectl. Flags are the flags with which
	// kubectl and certplane's verbs use the same server as the same user.
	Kubectl, Flags []string
	// Controllers is the namespace of the accounts of certplane's controllers; empty
	// for those where these usually are.
	Controllers string
	// Now is the current time.
	Now time.Time
}

// controllers returns the namespaces where certplane's controllers may be.
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

// CertplaneOn returns such a command line for objects, whose names others have chosen.
func (q Query) CertplaneOn(names []string, words ...string) []string {
	return print.Command(append([]string{"certplane"}, words...), names, q.Flags...)
}

// kubectl returns the command line of kubectl for the same server.
func (q Query) kubectl(words ...string) []string {
	return slices.Concat(q.Kubectl, q.Flags, words)
}

// typedBy returns the query for commands that the caller types or, if the
// caller may not, another user. For another user it has no flags, as that user
// has other ones.
func (q Query) typedBy(mayCaller Result) Query {
	if mayCaller == No {
		q.Flags = nil
	}
	return q
}

// NotFoundError says that the object to explain does not exist.
type NotFoundError struct {
	Message string
	// Next is where to look.
	Next []Step
	// KindMissing reports that the server does not have the kind either.
	KindMissing bool
}

func (e *NotFoundError) Error() string { return e.Message }

// ReadError says that something could not be read. A missing permission is an
// error only for the object to explain itself.
type ReadError struct {
	// Doing is what was tried.
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
