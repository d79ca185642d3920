package admissionwebhook

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/internal/admission/certplane"
)

// Orders of the ACME server are written by nobody else, in clusters too, and deleted
// accounts have a warning.
func TestACMEObjects(t *testing.T) {
	of := func(resource, kind string) *admissionv1.AdmissionReview {
		return review(func(asked *admissionv1.AdmissionRequest) {
			asked.Kind = metav1.GroupVersionKind{Group: "certplane.dev", Version: "v1alpha1", Kind: kind}
			asked.Resource = metav1.GroupVersionResource{Group: "certplane.dev", Version: "v1alpha1", Resource: resource}
			asked.Object = runtime.RawExtension{Raw: []byte(`{"apiVersion":"certplane.dev/v1alpha1","kind":"` + kind + `","metadata":{"name":"web"},"spec":{"endpoint":"corp"}}`)}
		})
	}
	nobodyMay := func(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, error) {
		return false, nil
	}
	h := &Handler{acme: certplane.NewACME(nobodyMay)}
	answer := h.validate(t.Context(), of("acmeorders", "AcmeOrder").Request)
	if answer.Allowed || answer.Result.Code != 403 || !strings.Contains(answer.Result.Message, `needs the verb "serve" on acmeendpoints "corp" of certplane.dev`) {
		t.Errorf("an order: %+v", answer)
	}
	deletion := of("acmeaccounts", "AcmeAccount")
	deletion.Request.Operation, deletion.Request.OldObject, deletion.Request.Object = admissionv1.Delete, deletion.Request.Object, runtime.RawExtension{}
	if answer = h.validate(t.Context(), deletion.Request); !answer.Allowed || len(answer.Warnings) != 1 {
		t.Errorf("a deletion: %+v", answer)
	}
}
