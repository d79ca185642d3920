package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// review is one about a CertificateRequest that alice creates.
func review(change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionReview {
	asked := &admissionv1.AdmissionRequest{
		UID:       "some-uid",
		Kind:      metav1.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequest"},
		Resource:  metav1.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests"},
		Namespace: "default", Name: "web", Operation: admissionv1.Create,
		UserInfo: authenticationv1.UserInfo{Username: "alice", Groups: []string{"team"}},
		Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"cert-manager.io/v1","kind":"CertificateRequest","metadata":{"name":"web"},
			"spec":{"request":"","username":"mallory","issuerRef":{"name":"ca"}}}`)},
	}
	if change != nil {
		change(asked)
	}
	return &admissionv1.AdmissionReview{TypeMeta: reviewKind, Request: asked}
}

// send posts a body and returns the answer.
func send(t *testing.T, path string, body []byte, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(request)
	}
	answer := httptest.NewRecorder()
	New(fake.NewClientset()).ServeHTTP(answer, request)
	return answer
}

// ask sends a review and returns what is decided.
func ask(t *testing.T, path string, asked *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	answer := send(t, path, body, nil)
	var decided admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &decided); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", answer.Code, answer.Body, err)
	}
	if decided.TypeMeta != reviewKind || decided.Response == nil || decided.Response.UID != asked.Request.UID {
		t.Fatalf("no answer to the review: %s", answer.Body)
	}
	return decided.Response
}

// The requester is written down, and the rest of the spec stays as it is.
func TestMutate(t *testing.T) {
	response := ask(t, MutatePath, review(nil))
	if !response.Allowed || response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Fatalf("%+v", response)
	}
	const want = `[{"op":"add","path":"/spec","value":{"groups":["team"],"issuerRef":{"name":"ca"},"request":"","username":"alice"}}]`
	if string(response.Patch) != want {
		t.Errorf("got  %s\nwant %s", response.Patch, want)
	}
	unchanged := ask(t, MutatePath, review(func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject = admissionv1.Update, r.Object }))
	if !unchanged.Allowed || unchanged.Patch != nil || unchanged.PatchType != nil {
		t.Errorf("an update is changed: %+v", unchanged)
	}
}

func TestDecisions(t *testing.T) {
	tests := []struct {
		reason, path string
		change       func(*admissionv1.AdmissionRequest)
		want         string // part of a refusal; "" is none
	}{
		{"a request that is wrong", ValidatePath, nil, "spec.request: Required value"},
		{"somebody else's", ValidatePath, nil, "spec.username: Forbidden: username identity must be that of the requester"},
		{"another kind than the resource's", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Issuer" }, "certificaterequests.cert-manager.io is of kind CertificateRequest"},
		{"another kind, changed", MutatePath, func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Issuer" }, "is of kind CertificateRequest"},
		{"no resource", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "" }, "names no resource"},
		{"no object", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }, "has no object"},
		{"an update of nothing", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }, "has no object"},
		{"an object that is none", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`[]`) }, "reading the object"},
		{"an object that was none", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = []byte(`{}`) }, "reading the object as it was"},
		{"a spec that is none", MutatePath, func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"kind":"CertificateRequest","spec":1}`) }, "setting the requester"},
		{"somebody else's API", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "apps" }, `nothing is known here of resources of the API group "apps"`},
		{"a deletion", ValidatePath, func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{}
		}, ""},
		{"a deletion, changed", MutatePath, func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{}
		}, ""},
		{"a resource that others bring along", ValidatePath, func(r *admissionv1.AdmissionRequest) {
			r.Resource.Resource, r.Kind.Kind = "others", "Other"
		}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			response := ask(t, tc.path, review(tc.change))
			if tc.want == "" {
				if !response.Allowed {
					t.Errorf("refused: %+v", response.Result)
				}
				return
			}
			if response.Allowed || response.Patch != nil || response.Result.Code != http.StatusForbidden || response.Result.Reason != metav1.StatusReasonForbidden {
				t.Fatalf("let through: %+v", response)
			}
			if !strings.Contains(response.Result.Message, tc.want) {
				t.Errorf("refused with %q, want %q", response.Result.Message, tc.want)
			}
		})
	}
}

// What is no review gets an HTTP error that says what is wrong.
func TestNoReview(t *testing.T) {
	good, err := json.Marshal(review(nil))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason string
		body   string
		change func(*http.Request)
		code   int
		want   string
	}{
		{"a browser", "", func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed, "POST an AdmissionReview"},
		{"another type", string(good), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType, "application/json"},
		{"no type", string(good), func(r *http.Request) { r.Header.Del("Content-Type") }, http.StatusUnsupportedMediaType, "application/json"},
		{"a type with parameters", string(good), func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, http.StatusOK, "some-uid"},
		{"nothing", "", nil, http.StatusBadRequest, "no AdmissionReview"},
		{"no JSON", "hello", nil, http.StatusBadRequest, "no AdmissionReview"},
		{"something else", `{"apiVersion":"v1","kind":"Pod"}`, nil, http.StatusBadRequest, `not "Pod" and "v1"`},
		{"another version", strings.Replace(string(good), "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), nil, http.StatusBadRequest, "admission.k8s.io/v1"},
		{"no request", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, nil, http.StatusBadRequest, "has no request"},
		{"no uid", strings.Replace(string(good), "some-uid", "", 1), nil, http.StatusBadRequest, "no request.uid"},
		{"too much", strings.Repeat(" ", maxBody+1), nil, http.StatusRequestEntityTooLarge, "7340032 bytes"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			answer := send(t, ValidatePath, []byte(tc.body), tc.change)
			if answer.Code != tc.code || !strings.Contains(answer.Body.String(), tc.want) {
				t.Errorf("got %d %s, want %d %s", answer.Code, answer.Body, tc.code, tc.want)
			}
		})
	}
	if answer := send(t, "/elsewhere", good, nil); answer.Code != http.StatusNotFound {
		t.Errorf("another path: %d", answer.Code)
	}
}

// Who waits too long for a turn is told so, and takes nothing.
func TestTooMany(t *testing.T) {
	v := newReviewer(func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		t.Error("decided")
		return nil
	})
	for range maxAtOnce {
		v.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer := httptest.NewRecorder()
	v.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, ValidatePath, nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

// accessAPI is the API as far as approvers know it.
type accessAPI struct {
	asked  []authorizationv1.SubjectAccessReviewSpec
	status authorizationv1.SubjectAccessReviewStatus
	err    error
}

func (a *accessAPI) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	a.asked = append(a.asked, review.Spec)
	review = review.DeepCopy()
	review.Status = a.status
	return review, a.err
}

// Answers are used again for a second; errors never, and they never allow.
func TestApprovers(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	server := &accessAPI{}
	approvers := newApprovers(server, clock)
	alice := authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"b": {"2"}, "a": {"1"}}}
	expect := func(want bool, asked int) {
		t.Helper()
		got, err := approvers.mayApprove(t.Context(), alice, "issuers.cert-manager.io/*")
		if got != want || (err != nil) != (server.err != nil) || len(server.asked) != asked {
			t.Fatalf("%t, %v after %d questions", got, err, len(server.asked))
		}
	}
	server.status.Allowed, server.err = true, errors.New("no connection")
	expect(false, 1)
	server.status, server.err = authorizationv1.SubjectAccessReviewStatus{EvaluationError: "a broken rule"}, nil
	expect(false, 2)
	server.status = authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}
	expect(false, 3)
	server.status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	expect(false, 3)
	clock.SetTime(clock.Now().Add(decisionLifetime + 1))
	expect(true, 4)
	server.status = authorizationv1.SubjectAccessReviewStatus{}
	expect(true, 4)
	if _, err := approvers.mayApprove(t.Context(), authenticationv1.UserInfo{Username: "alice"}, "issuers.cert-manager.io/*"); err != nil || len(server.asked) != 5 {
		t.Error("somebody else of this name gets her answer")
	}
	if allowed, err := approvers.mayApprove(t.Context(), alice, "issuers.cert-manager.io/default.ca"); allowed || err != nil {
		t.Error("another signer gets the answer of the first")
	}
	clock.SetTime(clock.Now().Add(decisionLifetime + 1))
	expect(false, 7)

	question := server.asked[0]
	if question.User != "alice" || question.UID != "1" || question.Groups[0] != "team" || question.Extra["a"][0] != "1" {
		t.Errorf("asked about %+v", question)
	}
	want := authorizationv1.ResourceAttributes{Verb: "approve", Group: "cert-manager.io", Version: "*", Resource: "signers", Name: "issuers.cert-manager.io/*"}
	if *question.ResourceAttributes != want {
		t.Errorf("asked for %+v", question.ResourceAttributes)
	}
}

// An approver cannot be found out, so nothing is approved.
func TestApprovalFailsClosed(t *testing.T) {
	object := func(status string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"apiVersion":"cert-manager.io/v1","kind":"CertificateRequest","metadata":{"name":"web"},"spec":{"issuerRef":{"name":"ca"}},"status":` + status + `}`)}
	}
	response := ask(t, ValidatePath, review(func(r *admissionv1.AdmissionRequest) {
		r.Operation, r.SubResource, r.UID = admissionv1.Update, "status", types.UID("u")
		r.OldObject = object(`{}`)
		r.Object = object(`{"conditions":[{"type":"Approved","status":"True","reason":"Test"}]}`)
	}))
	if response.Allowed || !strings.Contains(response.Result.Message, "referenced signer resource does not exist: {ca  }") {
		t.Errorf("%+v", response)
	}
}
