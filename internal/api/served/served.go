// Package served tells the kinds that an API does not serve from objects that do not exist.
package served

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsMissing reports whether the error of a call says that the API does not serve the
// kind: clients do not find it among the kinds, or the answer 404 is not one about an object.
func IsMissing(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
