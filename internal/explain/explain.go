// Package explain tells what becomes of certificate requests, Certificates and
// signers, and why: it gathers what an API tells, and decides what that means.
// It writes nothing.
//
// What depends on the request alone it decides with the code that decides for
// real: the approver's policy and the profile of the signer, built in or
// declared. What depends on permissions it asks the API, as any client can.
package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type csr = certificatesv1.CertificateSigningRequest

// Query is what to explain, and to whom.
type Query struct {
	// Name is what is explained, Namespace where it is, if it is in one.
	Name, Namespace string
	// Kubectl is how the caller calls kubectl, Flags are those that lead it and
	// certplane's verbs to the same server as the same user.
	Kubectl, Flags []string
	// Now is the time.
	Now time.Time
}

// Certplane is how to call a verb of certplane for the same server.
func (q Query) Certplane(words ...string) []string {
	return append(append([]string{"certplane"}, words...), q.Flags...)
}

// kubectl is how to call kubectl for the same server.
func (q Query) kubectl(words ...string) []string {
	return slices.Concat(q.Kubectl, q.Flags, words)
}

// typedBy is for commands that the caller types, or another user does if the
// caller may not: that one has flags of its own.
func (q Query) typedBy(mayCaller Result) Query {
	if mayCaller == No {
		q.Flags = nil
	}
	return q
}

// NotFoundError says that there is nothing to explain.
type NotFoundError struct {
	Message string
	// Next is where to look.
	Next []Step
	// KindMissing reports that the server lacks the kind too.
	KindMissing bool
}

func (e *NotFoundError) Error() string { return e.Message }

// ReadError says that something could not be found out. What the caller may not
// know is no error but for the object to be explained itself.
type ReadError struct {
	// Doing is what was tried.
	Doing string
	Err   error
}

func (e *ReadError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }

func (e *ReadError) Unwrap() error { return e.Err }

// reading wraps the error of an API, if there is one.
func reading(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &ReadError{doing, err}
}

// lacksKind reports whether there is no object because there is no kind.
func lacksKind(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// CertificateSigningRequest explains a request.
func CertificateSigningRequest(ctx context.Context, api Reader, q Query) (Explanation, error) {
	f, err := gather(ctx, api, q)
	if err != nil {
		return Explanation{}, err
	}
	return f.explain(), nil
}
