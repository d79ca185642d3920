package csr

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// keepOwners restores the owners: an approver or a signer could use them to
// have a request deleted. Other metadata stays as sent, as in Kubernetes.
func keepOwners(csr, stored *certificatesv1.CertificateSigningRequest) {
	csr.OwnerReferences = stored.OwnerReferences
}

// ownersPath is the field that keepOwners restores.
var ownersPath = fieldpath.MakePathOrDie("metadata", "ownerReferences")

// statusStrategy lets signers set the certificate and every condition that does
// not decide the request.
type statusStrategy struct{ strategy }

// PrepareForUpdate restores the spec and the stored decisions. Added and
// removed decisions remain, and validation refuses them; v1beta1 never refused
// them, but ignored all conditions instead.
func (s statusStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	csr.Spec = stored.Spec
	keepOwners(csr, stored)
	restored := restoreDecisions(csr.Status.Conditions, stored.Status.Conditions)
	if !restored && requestVersion(ctx) == certificatesv1beta1.SchemeGroupVersion {
		csr.Status.Conditions = stored.Status.Conditions
		return
	}
	fillTimes(csr.Status.Conditions, stored.Status.Conditions, metav1.NewTime(s.now()))
}

// Answer prepares and validates an update of a request that is being created, which has been
// validated already and changes only in its status.
func (s statusStrategy) Answer(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	csr.ObjectMeta = stored.ObjectMeta
	s.PrepareForUpdate(ctx, csr, stored)
	return certificates.ValidateCSRAnswer(csr, stored, requestVersion(ctx), false)
}

func (statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	return certificates.ValidateCSRStatusUpdate(csr, stored, requestVersion(ctx))
}

// GetResetFields keeps field managers from owning conditions, although clients
// can set them here: Kubernetes declares them in the same way.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetIn(certificates.RequestVersions, ownersPath, fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "conditions"))
}

// approvalStrategy lets approvers set only conditions, of any type.
type approvalStrategy struct{ strategy }

// PrepareForUpdate restores everything except metadata and conditions.
func (s approvalStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	fillTimes(csr.Status.Conditions, stored.Status.Conditions, metav1.NewTime(s.now()))
	csr.Spec = stored.Spec
	keepOwners(csr, stored)
	csr.Status.Certificate = stored.Status.Certificate
}

// Answer is Answer of the status.
func (s approvalStrategy) Answer(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	csr.ObjectMeta = stored.ObjectMeta
	s.PrepareForUpdate(ctx, csr, stored)
	return certificates.ValidateCSRAnswer(csr, stored, requestVersion(ctx), true)
}

func (approvalStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	return certificates.ValidateCSRApprovalUpdate(csr, stored, requestVersion(ctx))
}

func (approvalStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetIn(certificates.RequestVersions, ownersPath, fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "certificate"))
}
