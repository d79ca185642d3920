// Package admissionwebhook serves admission for the API server of a cluster: the
// checks of cert-manager.io, of trust.cert-manager.io, of certplane.dev and by certificate policies
// that "certplane serve" makes in its own process.
package admissionwebhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/admission/certmanager"
	"github.com/certplane/certplane/internal/admission/certplane"
	"github.com/certplane/certplane/internal/admission/certpolicy"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/policies"
)

// The names of the webhooks in their configurations, which are part of
// refusals.
const (
	Name       = certmanager.WebhookName
	SignerName = certplane.WebhookName
	ACMEName   = certplane.ACMEWebhookName

	RevocationName = certplane.RevocationWebhookName
	BundleName     = trustmanager.WebhookName
	TrustName      = certplane.TrustBundleWebhookName
)

// The paths that are served.
const (
	MutatePath   = "/mutate"
	ValidatePath = "/validate"
	// Decisions of certificate policies have separate paths, because a review does not name
	// its webhook.
	MutateByPoliciesPath   = "/policies/mutate"
	ValidateByPoliciesPath = "/policies/validate"
	// AnswerPath allows everything: an answer proves that the webhook can be reached.
	AnswerPath = "/policies/answer"
)

// Handler answers reviews. It is safe for concurrent use.
type Handler struct {
	checks  *certmanager.Checks
	signers *certplane.Checks
	acme    *certplane.ACMEChecks
	revokes *certplane.RevocationChecks
	// policies is nil if there are none to decide by.
	policies *certpolicy.Checks
	// authorize checks the rights of users, and now returns the time.
	authorize certpolicy.Authorize
	now       func() time.Time
	mux       *http.ServeMux
}

// New returns a handler that asks client which users may approve, which needs
// the right to create SubjectAccessReviews, and which kinds of issuers exist.
// It reads Signers with objects, and decides by policies unless that is nil. Its
// work is counted in metrics.
func New(client kubernetes.Interface, objects dynamic.Interface, all *policies.Policies, metrics *Metrics) *Handler {
	approvers := newApprovers(client.AuthorizationV1().SubjectAccessReviews(), clock.RealClock{})
	h := &Handler{
		checks:  certmanager.New(discovery.ToDiscoveryInterfaceWithContext(client.Discovery()), approvers.authorize),
		signers: certplane.New(objects), acme: certplane.NewACME(approvers.authorize), revokes: certplane.NewRevocations(approvers.authorize, clock.RealClock{}.Now), authorize: approvers.authorize,
		mux: http.NewServeMux(),
	}
	if all != nil {
		h.policies, h.now = certpolicy.New(all, approvers.authorize), all.Now
		h.mux.Handle(MutateByPoliciesPath, newReviewer(h.mutateByPolicies, metrics))
		h.mux.Handle(ValidateByPoliciesPath, newReviewer(h.validateByPolicies, metrics))
		h.mux.Handle(AnswerPath, newReviewer(answer, metrics))
	}
	h.mux.Handle(MutatePath, newReviewer(h.mutate, metrics))
	h.mux.Handle(ValidatePath, newReviewer(h.validate, metrics))
	return h
}

func answer(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Handler) mutate(_ context.Context, review *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	r, err := request(review)
	if err != nil {
		return denied(err)
	}
	if r.Object == nil {
		return &admissionv1.AdmissionResponse{Allowed: true} // a deletion
	}
	before := r.Object.DeepCopy()
	if err := h.checks.Mutate(r); err != nil {
		return denied(err)
	}
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if err := patchParts(response, before, r.Object, "spec"); err != nil {
		return denied(err)
	}
	return response
}

func (h *Handler) validate(ctx context.Context, review *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if review.Resource.Group == v1alpha1.GroupName {
		return h.validateCertplane(ctx, review)
	}
	if review.Resource.Group == trustmanager.GroupName {
		return validateBundle(review)
	}
	r, err := request(review)
	if err != nil {
		return denied(err)
	}
	warnings, err := h.checks.Validate(ctx, r)
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if err != nil {
		response = denied(err)
	}
	response.Warnings = warnings
	return response
}

func (h *Handler) validateCertplane(ctx context.Context, review *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	r := certplane.Request{Operation: review.Operation, Subresource: review.SubResource, Name: review.Name}
	var err error
	if r.Object, r.Old, err = objects(review); err != nil {
		return denied(err)
	}
	response := &admissionv1.AdmissionResponse{}
	var refusal *apierrors.StatusError
	resource := schema.GroupVersionResource(review.Resource).GroupResource()
	w := certplane.Write{Request: r, Resource: resource, Namespace: review.Namespace, User: review.UserInfo}
	switch {
	case resource == certplane.Resource.GroupResource():
		refusal = h.signers.Validate(ctx, r)
	case certplane.IsACME(resource):
		response.Warnings, refusal = h.acme.Validate(ctx, w)
	case resource == certplane.Revocations.GroupResource():
		response.Warnings, refusal = h.revokes.Validate(ctx, certplane.RevocationWrite{Request: r, User: review.UserInfo})
	case resource == certplane.TrustBundles.GroupResource():
		refusal = certplane.CheckTrustBundle(ctx, certplane.Authorize(h.authorize), w)
	default:
		return denied(notReviewed(resource))
	}
	if response.Allowed = refusal == nil; refusal != nil {
		response.Result = &refusal.ErrStatus
	}
	return response
}

func validateBundle(review *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	bundle, err := object(review.Object)
	if err == nil {
		err = trustmanager.Check(schema.GroupVersionResource(review.Resource).GroupResource(), review.SubResource, bundle)
	}
	if err != nil {
		return denied(err)
	}
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// request converts a review for the checks of cert-manager.io. A kind without a check is an
// error: the administrator who sends it to this webhook expects it to be checked.
func request(review *admissionv1.AdmissionRequest) (certmanager.Request, error) {
	r := certmanager.Request{
		Operation:   review.Operation,
		Kind:        schema.GroupVersionKind(review.Kind),
		Resource:    schema.GroupVersionResource(review.Resource),
		Subresource: review.SubResource,
		Namespace:   review.Namespace,
		User:        review.UserInfo,
	}
	if group := r.Resource.Group; group != api.Group && group != api.ACMEGroup {
		return r, notReviewed(r.Resource.GroupResource())
	}
	var err error
	r.Object, r.Old, err = objects(review)
	return r, err
}

// objects returns the new and the old object.
func objects(review *admissionv1.AdmissionRequest) (now, old *unstructured.Unstructured, err error) {
	if now, err = object(review.Object); err != nil {
		return nil, nil, fmt.Errorf("reading the object: %w", err)
	}
	if old, err = object(review.OldObject); err != nil {
		return nil, nil, fmt.Errorf("reading the old object: %w", err)
	}
	return now, old, nil
}

// object returns an object, or nil if raw is empty.
func object(raw runtime.RawExtension) (*unstructured.Unstructured, error) {
	if len(raw.Raw) == 0 {
		return nil, nil
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw.Raw); err != nil {
		return nil, err
	}
	return o, nil
}

// patchParts sets the patch of the named parts of an object that have changed. Each
// is an operation that also creates the part if it does not exist (RFC 6902 section
// 4.1).
func patchParts(response *admissionv1.AdmissionResponse, before, after *unstructured.Unstructured, parts ...string) error {
	var operations []any
	for _, part := range parts {
		if !reflect.DeepEqual(before.Object[part], after.Object[part]) {
			operations = append(operations, map[string]any{"op": "add", "path": "/" + part, "value": after.Object[part]})
		}
	}
	if len(operations) == 0 {
		return nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("encoding the change: %w", err)
	}
	response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	return nil
}

func denied(err error) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error(),
	}}
}
