package worker

import (
	"time"

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
