package admissionwebhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
)

// decideBy sends a review to a webhook that does not know the policies yet.
func decideBy(t *testing.T, path string, asked *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	settings := policies.DefaultSettings()
	settings.CheckIssued = true
	unknown, err := policies.New(policies.Config{
		API: &rest.Config{Host: "https://127.0.0.1:1"}, Settings: settings, Seals: &policies.Seals{},
		Mapper: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kinds, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	asked.UID = "some-uid"
	asked.UserInfo = authenticationv1.UserInfo{Username: "alice"}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewKind, Request: asked})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	New(fake.NewClientset(), known(t), unknown, nil).ServeHTTP(answer, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("%s: %v", answer.Body, err)
	}
	return review.Response
}

func TestPoliciesAreValidated(t *testing.T) {
	asked := &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Resource: metav1.GroupVersionResource(policies.PoliciesResource),
		Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"certplane.dev/v1alpha1","kind":"CertificatePolicy","metadata":{"name":"bad"},
			"spec":{"effect":"Allow","match":{"signers":["example.com/x"]}}}`)},
	}
	got := decideBy(t, ValidateByPoliciesPath, asked)
	if got.Allowed || got.Result.Reason != metav1.StatusReasonInvalid || len(got.Result.Details.Causes) == 0 {
		t.Errorf("%+v", got)
	}
}

// Nothing is approved while it is not known what the policies are.
func TestApprovalsWaitForPolicies(t *testing.T) {
	csr := func(conditions string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"x","uid":"1"},
			"spec":{"request":"","signerName":"example.com/x","usages":[]},"status":{"conditions":[` + conditions + `]}}`)}
	}
	for _, tc := range []struct {
		reason, conditions string
		allowed            bool
	}{
		{"an approval", `{"type":"Approved","status":"True"}`, false},
		{"a denial", `{"type":"Denied","status":"True"}`, true},
		{"a forged vote", `{"type":"certplane.dev/approval-1","status":"True"}`, true},
	} {
		asked := &admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, SubResource: "approval", Object: csr(tc.conditions), OldObject: csr(""),
			Resource: metav1.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"},
		}
		got := decideBy(t, MutateByPoliciesPath, asked)
		if got.Allowed != tc.allowed || !tc.allowed && got.Result.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %+v", tc.reason, got)
		}
		if forged := tc.reason == "a forged vote"; forged != (got.Patch != nil) {
			t.Errorf("%s: the patch is %s", tc.reason, got.Patch)
		}
	}
}

// No certificate of a signer of others is stored while it is not known what the
// policies are. What has no new certificate is.
func TestIssuedWaitsForPolicies(t *testing.T) {
	object := func(group, kind, field, certificate string) runtime.RawExtension {
		status := map[string]any{}
		if certificate != "" {
			status[field] = certificate
		}
		data, err := json.Marshal(map[string]any{"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"name": "x", "namespace": "a"}, "status": status})
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pem := pki.EncodeCertificates(root.Certificate())
	for _, kind := range []struct{ group, kind, resource, field, certificate string }{
		{"certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", "certificate", base64.StdEncoding.EncodeToString(pem)},
		{"certificates.k8s.io", "PodCertificateRequest", "podcertificaterequests", "certificateChain", string(pem)},
		{"cert-manager.io", "CertificateRequest", "certificaterequests", "certificate", base64.StdEncoding.EncodeToString(pem)},
	} {
		with, without := object(kind.group, kind.kind, kind.field, kind.certificate), object(kind.group, kind.kind, kind.field, "")
		for _, tc := range []struct {
			reason   string
			new, old runtime.RawExtension
			allowed  bool
		}{
			{"a certificate", with, without, false},
			{"the same certificate", with, with, true},
			{"no certificate", without, with, true},
		} {
			got := decideBy(t, ValidateByPoliciesPath, &admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, SubResource: "status", Object: tc.new, OldObject: tc.old,
				Resource: metav1.GroupVersionResource{Group: kind.group, Version: "v1", Resource: kind.resource},
			})
			if got.Allowed != tc.allowed || !tc.allowed && got.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("%s, %s: %+v", kind.kind, tc.reason, got.Result)
			}
		}
	}
}
