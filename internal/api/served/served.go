// Package served tells the kinds that an API does not serve from objects that do not exist.
package served

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsMissing reports whether the error of a call says that the API does not serve the
// kind: clients do not find it among the kinds, or the answer 404 is not one about an
// object. For a group of which it serves nothing, an API server answers without a Status;
// for a group of which it serves something else, with a Status that names no object.
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
