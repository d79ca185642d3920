package admissionwebhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/admission/certplane"
)

// review returns a review of a CertificateRequest that alice creates.
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
	New(fake.NewClientset(), known(t), nil, nil).ServeHTTP(answer, request)
	return answer
}

// known returns a client that has the Signer other with the name
// example.com/other.
func known(t *testing.T) *dynamicfake.FakeDynamicClient {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	return dynamicfake.NewSimpleDynamicClient(kinds, &v1alpha1.Signer{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Signer"},
		ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.SignerSpec{SignerName: "example.com/other"},
	})
}

// ask sends a review and returns the decision.
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

// The requester is recorded, and the rest of the spec stays as it is.
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
		want         string // part of a refusal; "" means none
	}{
		{"a request that is wrong", ValidatePath, nil, "spec.request: Required value"},
		{"somebody else's", ValidatePath, nil, "spec.username: Forbidden: username identity must be that of the requester"},
		{"another kind than the resource's", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Issuer" }, "certificaterequests.cert-manager.io is of kind CertificateRequest"},
		{"another kind, changed", MutatePath, func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Issuer" }, "is of kind CertificateRequest"},
		{"no resource", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "" }, "names no resource"},
		{"no object", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }, "has no object"},
		{"an update of nothing", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }, "has no object"},
		{"an object that is none", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`[]`) }, "reading the object"},
		{"an object that was none", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = []byte(`{}`) }, "reading the old object"},
		{"a spec that is none", MutatePath, func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"kind":"CertificateRequest","spec":1}`) }, "setting the requester"},
		{"an unknown API", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "apps" }, `this webhook does not review "certificaterequests" of the API group "apps"`},
		{"another kind of ours", ValidatePath, func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "certplane.dev" }, `of the API group "certplane.dev"`},
		{"a Signer, changed", MutatePath, func(r *admissionv1.AdmissionRequest) {
			r.Resource.Group, r.Resource.Resource = "certplane.dev", "signers"
		}, `this webhook does not review "signers"`},
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

// goodSigner is the spec of a valid Signer.
const goodSigner = `{"signerName":"example.com/a","requests":["PodCertificateRequest"],"ca":{"generated":{}},
	"profile":{"names":{"uris":"['spiffe://example.org/' + pod.metadata.name]"},"usages":["digital signature"]}}`

// A Signer is refused for the same reasons, with the same status, as by our own
// server.
func TestSigners(t *testing.T) {
	broken := strings.Replace(goodSigner, "metadata.name", "metadata.nmae", 1)
	taken := strings.Replace(goodSigner, "example.com/a", "example.com/other", 1)
	signer := func(spec string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"apiVersion":"certplane.dev/v1alpha1","kind":"Signer","metadata":{"name":"some"},"spec":` + spec + `}`)}
	}
	tests := []struct {
		reason, before, after, subresource string
		field, want                        string // part of a cause; "" means none
	}{
		{"a good one", "", goodSigner, "", "", ""},
		{"an expression that does not compile", "", broken, "", "spec.profile.names.uris", "undefined field 'nmae'"},
		{"a name that is taken", "", taken, "", "spec.signerName", "the Signer other declares it already"},
		{"no spec that can be read", "", "1", "", "spec", "cannot restore struct from: int"},
		{"one that is broken", goodSigner, broken, "", "spec.profile.names.uris", "undefined field 'nmae'"},
		{"a label of a broken one", broken, broken, "", "", ""},
		{"a broken one is fixed", broken, goodSigner, "", "", ""},
		{"the status of a broken one", goodSigner, broken, "status", "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			response := ask(t, ValidatePath, review(func(r *admissionv1.AdmissionRequest) {
				r.Kind = metav1.GroupVersionKind{Group: "certplane.dev", Version: "v1alpha1", Kind: "Signer"}
				r.Resource = metav1.GroupVersionResource{Group: "certplane.dev", Version: "v1alpha1", Resource: "signers"}
				r.Name, r.Namespace, r.SubResource, r.Object = "some", "", tc.subresource, signer(tc.after)
				if tc.before != "" {
					r.Operation, r.OldObject = admissionv1.Update, signer(tc.before)
				}
			}))
			if tc.want == "" {
				if !response.Allowed {
					t.Errorf("refused: %+v", response.Result)
				}
				return
			}
			if response.Allowed || response.Result.Code != http.StatusUnprocessableEntity || response.Result.Reason != metav1.StatusReasonInvalid {
				t.Fatalf("%+v", response)
			}
			if cause := response.Result.Details.Causes[0]; cause.Field != tc.field || !strings.Contains(cause.Message, tc.want) {
				t.Errorf("refused because of %+v, want %s: %s", cause, tc.field, tc.want)
			}
		})
	}
}

// If it cannot be found out whether a name is taken, the Signer is refused with
// the reason.
func TestSignersCannotBeRead(t *testing.T) {
	client := known(t)
	client.PrependReactor("list", "signers", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(certplane.Resource.GroupResource(), "", errors.New("no right"))
	})
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(`{"kind":"Signer","metadata":{"name":"some"},"spec":` + goodSigner + `}`)); err != nil {
		t.Fatal(err)
	}
	invalid := certplane.New(client).Validate(t.Context(), certplane.Request{Operation: admissionv1.Create, Object: object})
	if invalid == nil || !strings.Contains(invalid.Error(), "spec.signerName: Internal error: looking for other Signers of this name: ") {
		t.Error(invalid)
	}
}

// A body that is not a review gets an HTTP error that says what is wrong.
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
		{"nothing", "", nil, http.StatusBadRequest, "not an AdmissionReview"},
		{"no JSON", "hello", nil, http.StatusBadRequest, "not an AdmissionReview"},
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

// A client that waits too long for its turn gets an error, and takes no place.
func TestTooMany(t *testing.T) {
	v := newReviewer(func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		t.Error("decided")
		return nil
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, ValidatePath, bytes.NewReader(encodedReview(t)))
	request.Header.Set("Content-Type", "application/json")
	for range maxAtOnceFrom {
		if _, err := v.places.Take(ctx, sender(request)); err != nil {
			t.Fatal(err)
		}
	}
	answer := httptest.NewRecorder()
	v.ServeHTTP(answer, request)
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func encodedReview(t *testing.T) []byte {
	t.Helper()
	body, err := json.Marshal(review(func(*admissionv1.AdmissionRequest) {}))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// However many clients send slowly, they delay only themselves. The same holds
// for clients that make the webhook ask the API about ever new users.
func TestSlowSenders(t *testing.T) {
	const strangers = 3 * maxAtOnce
	held, release := make(chan struct{}, strangers), make(chan struct{})
	v := newReviewer(func(_ context.Context, asked *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if asked.UserInfo.Username == "stranger" {
			held <- struct{}{}
			<-release
		}
		return &admissionv1.AdmissionResponse{Allowed: true}
	}, nil)
	var group sync.WaitGroup
	send := func(from string, body io.Reader) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, ValidatePath, body)
		request.Header.Set("Content-Type", "application/json")
		request.RemoteAddr = from + ":1234"
		answer := httptest.NewRecorder()
		v.ServeHTTP(answer, request)
		return answer
	}
	var slow []*io.PipeWriter
	for range strangers {
		body, sending := io.Pipe()
		slow = append(slow, sending)
		group.Go(func() { send("10.0.0.1", body) })
		if _, err := sending.Write([]byte("{")); err != nil { // returns when it has been read
			t.Fatal(err)
		}
	}
	asking, err := json.Marshal(review(func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "stranger" }))
	if err != nil {
		t.Fatal(err)
	}
	for range strangers {
		group.Go(func() { send("10.0.0.2", bytes.NewReader(asking)) })
	}
	for range maxAtOnceFrom {
		<-held
	}
	if answer := send("10.0.0.3", bytes.NewReader(encodedReview(t))); answer.Code != http.StatusOK {
		t.Errorf("an API server gets %d %s", answer.Code, answer.Body)
	}
	close(release)
	for _, sending := range slow {
		sending.CloseWithError(io.ErrUnexpectedEOF)
	}
	group.Wait()
}

// accessAPI is the part of the API that approvers use.
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

// Answers are cached for a second. Errors are never cached, and never allow a
// request.
func TestApprovers(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	server := &accessAPI{}
	approvers := newApprovers(server, clock)
	alice := authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"b": {"2"}, "a": {"1"}}}
	expect := func(want bool, asked int) {
		t.Helper()
		got, err := approvers.authorize(t.Context(), alice, authorizationv1.ResourceAttributes{Verb: "approve", Group: "cert-manager.io", Version: "*", Resource: "signers", Name: "issuers.cert-manager.io/*"})
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
	if _, err := approvers.authorize(t.Context(), authenticationv1.UserInfo{Username: "alice"}, authorizationv1.ResourceAttributes{Verb: "approve", Group: "cert-manager.io", Version: "*", Resource: "signers", Name: "issuers.cert-manager.io/*"}); err != nil || len(server.asked) != 5 {
		t.Error("somebody else of this name gets her answer")
	}
	if allowed, err := approvers.authorize(t.Context(), alice, authorizationv1.ResourceAttributes{Verb: "approve", Group: "cert-manager.io", Version: "*", Resource: "signers", Name: "issuers.cert-manager.io/default.ca"}); allowed || err != nil {
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

// If it cannot be found out whether a user is an approver, nothing is approved.
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
