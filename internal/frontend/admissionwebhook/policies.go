package admissionwebhook

import (
	"context"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/admission/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	certrequest "github.com/certplane/certplane/internal/policy/request"
)

// mutateByPolicies turns approvals that need more people into votes, and changes of
// policies that do into proposals.
func (h *Handler) mutateByPolicies(ctx context.Context, review *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	sent, stored, err := objects(review)
	if err != nil {
		return denied(err)
	}
	if certpolicy.IsPolicy(schema.GroupVersionResource(review.Resource).GroupResource()) {
		return h.mutatePolicy(ctx, objectWrite(review, sent, stored))
	}
	w, err := h.approvalOf(review, sent, stored)
	if err != nil {
		return denied(err)
	}
	conditions, outcome := h.policies.Mutate(ctx, w)
	response := reply(outcome)
	if outcome.Refusal != nil || conditions == nil {
		return response
	}
	before := sent.DeepCopy()
	if err := certpolicy.ToUnstructured(sent, stored, conditions, h.now()); err != nil {
		return denied(err)
	}
	if err := patchParts(response, before, sent, "status", "metadata"); err != nil {
		return denied(err)
	}
	return response
}

func (h *Handler) mutatePolicy(ctx context.Context, w certpolicy.ObjectWrite) *admissionv1.AdmissionResponse {
	stored, outcome := h.policies.MutateObject(ctx, w)
	response := reply(outcome)
	if outcome.Refusal != nil || stored == nil {
		return response
	}
	if err := patchParts(response, w.Object, stored, "spec", "metadata"); err != nil {
		return denied(err)
	}
	return response
}

// objectWrite returns a write of a policy or an exception.
func objectWrite(review *admissionv1.AdmissionRequest, sent, stored *unstructured.Unstructured) certpolicy.ObjectWrite {
	return certpolicy.ObjectWrite{
		Operation: review.Operation, Resource: schema.GroupVersionResource(review.Resource).GroupResource(), Subresource: review.SubResource,
		User: review.UserInfo, Object: sent, Old: stored,
	}
}

// validateByPolicies refuses what policies forbid.
func (h *Handler) validateByPolicies(ctx context.Context, review *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	sent, stored, err := objects(review)
	if err != nil {
		return denied(err)
	}
	resource := schema.GroupVersionResource(review.Resource).GroupResource()
	switch {
	case certpolicy.IsPolicy(resource):
		return reply(h.policies.ValidateObject(ctx, objectWrite(review, sent, stored)))
	case resource == certpolicy.CertificatesResource && review.SubResource == "":
		return reply(h.policies.Certificate(ctx, sent, stored, isDryRun(review)))
	case resource == certpolicy.PodRequestsResource && review.SubResource == "status":
		now, was, err := both[certificatesv1beta1.PodCertificateRequest](sent, stored)
		if err != nil {
			return denied(err)
		}
		w := certpolicy.Of(now, was, "status")
		w.DryRun = isDryRun(review)
		return reply(h.policies.Issued(ctx, w))
	case review.Operation == admissionv1.Create:
		r, err := requestOf(resource, sent)
		if err != nil {
			return denied(err)
		}
		r.Requester = certpolicy.Person(review.UserInfo)
		if outcome := h.annotate(ctx, review, r, nil); outcome.Refusal != nil {
			return reply(outcome)
		}
		return reply(h.policies.Create(ctx, resource, r, isDryRun(review)))
	}
	r, err := requestOf(resource, stored)
	if err != nil {
		return denied(err)
	}
	after := r
	after.ObjectAnnotations = sent.GetAnnotations()
	if outcome := h.annotate(ctx, review, after, r.ObjectAnnotations); outcome.Refusal != nil || review.SubResource == "" {
		return reply(outcome)
	}
	w, err := h.approvalOf(review, sent, stored)
	if err != nil {
		return denied(err)
	}
	return reply(h.policies.Validate(ctx, w))
}

// annotate checks the annotations about overrides in a written request. before are the
// stored annotations.
func (h *Handler) annotate(ctx context.Context, review *admissionv1.AdmissionRequest, r certrequest.Request, before map[string]string) certpolicy.Outcome {
	return h.policies.Annotate(ctx, certpolicy.Annotating{
		Resource: schema.GroupVersionResource(review.Resource).GroupResource(), Request: r, Stored: before,
		User: quorum.Voter{Person: certpolicy.Person(review.UserInfo)},
	})
}

// requestOf returns the content that a new request asks for.
func requestOf(resource schema.GroupResource, sent *unstructured.Unstructured) (certrequest.Request, error) {
	switch resource {
	case certificatesv1.Resource("certificatesigningrequests"):
		csr, err := as[certificatesv1.CertificateSigningRequest](sent)
		if err != nil {
			return certrequest.Request{}, err
		}
		return certrequest.FromCSR(csr), nil
	case certpolicy.RequestsResource:
		cr, err := as[cmv1.CertificateRequest](sent)
		if err != nil {
			return certrequest.Request{}, err
		}
		return certrequest.FromCertificateRequest(cr), nil
	default:
		return certrequest.Request{}, notReviewed(resource)
	}
}

// approvalOf returns the write of a request's conditions. A webhook cannot see which user
// impersonates another.
func (h *Handler) approvalOf(review *admissionv1.AdmissionRequest, loose, looseOld *unstructured.Unstructured) (certpolicy.Approval, error) {
	var w certpolicy.Approval
	resource := schema.GroupVersionResource(review.Resource).GroupResource()
	switch {
	case resource == certificatesv1.Resource("certificatesigningrequests") && review.SubResource != "":
		sent, stored, err := both[certificatesv1.CertificateSigningRequest](loose, looseOld)
		if err != nil {
			return w, err
		}
		w = certpolicy.OfCSR(sent, stored, review.SubResource)
		w.MayApprove = func(ctx context.Context) error { return h.mayApprove(ctx, review, stored.Spec.SignerName) }
	case resource == certpolicy.RequestsResource && review.SubResource == "status":
		sent, stored, err := both[cmv1.CertificateRequest](loose, looseOld)
		if err != nil {
			return w, err
		}
		w = certpolicy.Of(sent, stored, "status")
		w.MayApprove = func(ctx context.Context) error { return h.checks.MayApprove(ctx, review.UserInfo, stored) }
	default:
		return w, notReviewed(resource)
	}
	w.User, w.DryRun = quorum.Voter{Person: certpolicy.Person(review.UserInfo)}, isDryRun(review)
	return w, nil
}

func isDryRun(review *admissionv1.AdmissionRequest) bool {
	return review.DryRun != nil && *review.DryRun
}

// mayApprove returns an error unless the user may approve for a signer.
func (h *Handler) mayApprove(ctx context.Context, review *admissionv1.AdmissionRequest, signerName string) error {
	domain, _, _ := strings.Cut(signerName, "/")
	for _, name := range []string{signerName, domain + "/*"} {
		allowed, err := h.authorize(ctx, review.UserInfo, authorizationv1.ResourceAttributes{
			Verb: "approve", Group: certificatesv1.GroupName, Version: "*", Resource: "signers", Name: name,
		})
		if err != nil {
			return fmt.Errorf("asking whether user %q may approve for %s: %w", review.UserInfo.Username, name, err)
		}
		if allowed {
			return nil
		}
	}
	return fmt.Errorf("user not permitted to approve requests with signerName %q", signerName)
}

func notReviewed(resource schema.GroupResource) error {
	return fmt.Errorf("this webhook does not review %q of the API group %q: correct the rules of the webhook's configuration", resource.Resource, resource.Group)
}

// as converts an object.
func as[T any](loose *unstructured.Unstructured) (*T, error) {
	if loose == nil {
		return nil, fmt.Errorf("the review has no object")
	}
	object := new(T)
	return object, runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, object)
}

func both[T any](loose, looseOld *unstructured.Unstructured) (sent, stored *T, err error) {
	if sent, err = as[T](loose); err != nil {
		return nil, nil, err
	}
	stored, err = as[T](looseOld)
	return sent, stored, err
}

// reply converts an answer for an API server.
func reply(outcome certpolicy.Outcome) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{Allowed: outcome.Refusal == nil, Warnings: outcome.Warnings, AuditAnnotations: outcome.Audit}
	if outcome.Refusal != nil {
		response.Result = &outcome.Refusal.ErrStatus
	}
	return response
}
