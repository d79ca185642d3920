package worker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ConflictPause is how long to wait after a conflict with another client. What
// that client has written is seen before that.
const ConflictPause = time.Second

// Kept turns the outcome of an attempt to keep objects in their desired state into the
// result of a reconciler: the time until the next attempt, or the error. It retries
// conflicts with other clients after ConflictPause instead of returning them.
func Kept(again time.Duration, err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: ConflictPause}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// RefusedPause is how long to wait after a refused write. The changes that end most refusals
// cause an attempt earlier.
const RefusedPause = 10 * time.Minute

// IsRefused reports whether the API has refused a write by validation, a missing right or a
// policy: the same write is refused again.
func IsRefused(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && !IsTooLate(err)
}

// IsTooLate reports whether a write has failed because its object or its namespace is being
// deleted or is gone.
func IsTooLate(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
