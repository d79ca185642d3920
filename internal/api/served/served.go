// Package served tells the kinds that an API does not serve from objects that do not exist.
package served

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsMissing reports whether the error of a call means that the API does not serve the kind:
// discovery does not list it, or a 404 response does not refer to an object. If an API
// server does not serve the group at all, its response has no Status; if it serves other
// kinds of the group, its response has a Status that names no object.
func IsMissing(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) ||
		errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == ""
}
