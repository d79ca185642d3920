package approverpolicy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	policyv1alpha1 "github.com/cert-manager/approver-policy/pkg/apis/policy/v1alpha1"
	approvermanager "github.com/cert-manager/approver-policy/pkg/approver/manager"
	oracle "github.com/cert-manager/approver-policy/pkg/certplaneoracle"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
)

// convert returns an object as approver-policy reads it, and checks that nothing
// is lost on the way there and back.
func convert(t testing.TB, ours *approverpolicy.CertificateRequestPolicy) policyv1alpha1.CertificateRequestPolicy {
	t.Helper()
	var theirs policyv1alpha1.CertificateRequestPolicy
	recode(t, ours, &theirs)
	var back approverpolicy.CertificateRequestPolicy
	recode(t, theirs, &back)
	if first, second := must(json.Marshal(ours)), must(json.Marshal(back)); !bytes.Equal(first, second) {
		t.Fatalf("lost in conversion:\n%s\n%s", first, second)
	}
	return theirs
}

func recode(t testing.TB, from, to any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(must(json.Marshal(from))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		t.Fatalf("%v in %s", err, must(json.Marshal(from)))
	}
}

// scenario is a decision.
type scenario struct {
	policies []*approverpolicy.CertificateRequestPolicy
	request  *cmv1.CertificateRequest
	labels   map[string]string
	// refused are the policies that the requester may not use.
	refused []string
}

func (s scenario) String() string {
	return fmt.Sprintf("request %s\nlabels %v, refused %v\npolicies %s", must(json.Marshal(s.request)), s.labels, s.refused, must(json.MarshalIndent(s.policies, "", " ")))
}

// ours returns what certplane decides.
func (s scenario) ours() (crp.Decision, error) {
	var policies []*crp.Policy
	for _, declared := range s.policies {
		compiled, _ := crp.Compile(declared)
		policies = append(policies, compiled)
	}
	return crp.Decide(policies, s.request, crp.Facts{
		NamespaceLabels: func() (map[string]string, error) { return s.labels, nil },
		MayUse:          func(name string) (bool, error) { return !slices.Contains(s.refused, name), nil },
	})
}

// theirs returns what approver-policy decides.
func (s scenario) theirs(t testing.TB) (approvermanager.ReviewResponse, error) {
	t.Helper()
	api := cluster{t: t, scenario: s}
	for _, p := range s.policies {
		api.policies = append(api.policies, convert(t, p))
	}
	return oracle.Review(t.Context(), api, s.request.DeepCopy())
}

// cluster is the API as approver-policy sees it.
type cluster struct {
	client.Client
	t        testing.TB
	scenario scenario
	policies []policyv1alpha1.CertificateRequestPolicy
}

func (c cluster) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*policyv1alpha1.CertificateRequestPolicyList).Items = c.policies
	return nil
}

func (c cluster) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if key.Name != c.scenario.request.Namespace {
		c.t.Errorf("looks up %s", key)
	}
	object.(*metav1.PartialObjectMetadata).Labels = c.scenario.labels
	return nil
}

// Create answers a review, which must be the one that certplane would ask for.
func (c cluster) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	review := object.(*authorizationv1.SubjectAccessReview)
	name := review.Spec.ResourceAttributes.Name
	if diff := cmp.Diff(review.Spec, crp.AccessReview(c.scenario.request, name)); diff != "" {
		c.t.Errorf("review: %s", diff)
	}
	review.Status.Allowed = !slices.Contains(c.scenario.refused, name)
	return nil
}

// validator is the webhook of approver-policy.
type validator struct{ http.Handler }

func newValidator(t testing.TB) validator {
	t.Helper()
	hooks := webhook.NewServer(webhook.Options{})
	m, err := manager.New(&rest.Config{Host: "https://127.0.0.1:1"}, manager.Options{
		Scheme: policyv1alpha1.GlobalScheme, WebhookServer: hooks, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := oracle.AddWebhook(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return validator{hooks.WebhookMux()}
}

// validate returns why a policy is refused, empty if it is not.
func (v validator) validate(t testing.TB, policy *approverpolicy.CertificateRequestPolicy) string {
	t.Helper()
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: must(json.Marshal(policy))},
			Kind: metav1.GroupVersionKind{Group: approverpolicy.GroupName, Version: "v1alpha1", Kind: "CertificateRequestPolicy"},
		},
	}
	request := httptest.NewRequest(http.MethodPost, "/validate-policy-cert-manager-io-v1alpha1-certificaterequestpolicy", bytes.NewReader(must(json.Marshal(review))))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	v.ServeHTTP(recorder, request)
	review.Response = nil
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("%v in %d %s", err, recorder.Code, recorder.Body)
	}
	if review.Response.Allowed {
		return ""
	}
	return review.Response.Result.Message
}

// refusal returns why certplane refuses a policy, empty if it does not.
func refusal(policy *approverpolicy.CertificateRequestPolicy) string {
	_, errs := crp.Compile(policy)
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}
