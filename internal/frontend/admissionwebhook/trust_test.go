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
)

// Authors of a TrustBundle with a ClusterTrustBundle as target need the rights to that.
func TestTrustBundleAuthors(t *testing.T) {
	write := func(operation admissionv1.Operation, spec, old string) *admissionv1.AdmissionRequest {
		return review(func(asked *admissionv1.AdmissionRequest) {
			asked.Operation, asked.Namespace, asked.Name = operation, "team", "trust"
			asked.Kind = metav1.GroupVersionKind{Group: "certplane.dev", Version: "v1alpha1", Kind: "TrustBundle"}
			asked.Resource = metav1.GroupVersionResource{Group: "certplane.dev", Version: "v1alpha1", Resource: "trustbundles"}
			of := func(spec string) (raw runtime.RawExtension) {
				if spec != "" {
					raw.Raw = []byte(`{"apiVersion": "certplane.dev/v1alpha1", "kind": "TrustBundle", "metadata": {"name": "trust"}, "spec": ` + spec + `}`)
				}
				return raw
			}
			asked.Object, asked.OldObject = of(spec), of(old)
		}).Request
	}
	const plain, cluster = `{"target": {"configMap": {}}}`, `{"target": {"clusterTrustBundle": {"name": "roots"}}}`
	const more = `{"target": {"clusterTrustBundle": {"name": "roots"}}, "sources": [{"inLine": "x"}]}`
	for _, tc := range []struct {
		reason  string
		request *admissionv1.AdmissionRequest
		may     string // verbs
		refused string // the missing verb
	}{
		{"no ClusterTrustBundle", write(admissionv1.Create, plain, ""), "", ""},
		{"no right", write(admissionv1.Create, cluster, ""), "", "create"},
		{"create only", write(admissionv1.Create, cluster, ""), "create", "update"},
		{"both rights", write(admissionv1.Create, cluster, ""), "create update", ""},
		{"the target is added", write(admissionv1.Update, cluster, plain), "create", "update"},
		{"other sources", write(admissionv1.Update, more, cluster), "", "create"},
		{"the same spec", write(admissionv1.Update, cluster, cluster), "", ""},
		{"the target is removed", write(admissionv1.Update, plain, cluster), "", ""},
	} {
		h := &Handler{authorize: func(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
			return what.Resource == "clustertrustbundles" && what.Name == "roots" && strings.Contains(tc.may, what.Verb), nil
		}}
		answer := h.validate(t.Context(), tc.request)
		if tc.refused == "" {
			if !answer.Allowed {
				t.Errorf("%s: %s", tc.reason, answer.Result.Message)
			}
		} else if want := `spec.target.clusterTrustBundle needs the verb "` + tc.refused + `" on clustertrustbundles "roots" of certificates.k8s.io`; answer.Allowed || answer.Result.Code != 403 || !strings.Contains(answer.Result.Message, want) {
			t.Errorf("%s: %+v", tc.reason, answer)
		}
	}
}
