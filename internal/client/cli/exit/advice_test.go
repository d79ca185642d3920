package exit_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/client/cli/exit"
)

// A refusal is shown with its field, if it has one. Refusals by policies have
// none.
func TestInvalid(t *testing.T) {
	for reason, tc := range map[string]struct {
		cause metav1.StatusCause
		want  string
	}{
		"a field":  {metav1.StatusCause{Field: "spec.usages", Message: "Required value"}, "submitting x: the server refuses it: spec.usages: Required value"},
		"a policy": {metav1.StatusCause{Message: "ValidatingAdmissionPolicy 'p' denied request"}, "submitting x: the server refuses it: ValidatingAdmissionPolicy 'p' denied request"},
	} {
		refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{tc.cause}},
		}}
		if got := exit.Advise("submitting x", refusal).Error(); got != tc.want {
			t.Errorf("%s: %q, want %q", reason, got, tc.want)
		}
	}
}
