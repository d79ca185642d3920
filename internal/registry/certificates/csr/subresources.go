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
	"github.com/certplane/certplane/internal/registry/kind"
)

// keepOwners puts the owners back: who decides or signs could have a request
// deleted by them. Other metadata stays as it was sent, as in Kubernetes.
func keepOwners(csr, stored *certificatesv1.CertificateSigningRequest) {
	csr.OwnerReferences = stored.OwnerReferences
}

// ownersPath is the field that keepOwners keeps.
var ownersPath = fieldpath.MakePathOrDie("metadata", "ownerReferences")

// statusStrategy lets signers set the certificate and every condition that
// does not decide the request.
type statusStrategy struct{ strategy }

// PrepareForUpdate puts the spec and the stored decisions back. A decision
// that was added or removed stays for validation to refuse; v1beta1 never
// refused one, it ignored all conditions instead.
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

func (statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	return certificates.ValidateCSRStatusUpdate(csr, stored, requestVersion(ctx))
}

// GetResetFields keeps field managers from owning conditions that they set
// here, although they can: Kubernetes declares it so.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetIn(certificates.RequestVersions, ownersPath, fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "conditions"))
}

// approvalStrategy lets approvers set every condition and nothing else.
type approvalStrategy struct{ strategy }

// PrepareForUpdate puts back everything but metadata and conditions.
func (s approvalStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	fillTimes(csr.Status.Conditions, stored.Status.Conditions, metav1.NewTime(s.now()))
	csr.Spec = stored.Spec
	keepOwners(csr, stored)
	csr.Status.Certificate = stored.Status.Certificate
}

func (approvalStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	csr, stored := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	return certificates.ValidateCSRApprovalUpdate(csr, stored, requestVersion(ctx))
}

func (approvalStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetIn(certificates.RequestVersions, ownersPath, fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "certificate"))
}
