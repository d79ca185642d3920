package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// ValidateServiceAccount returns the errors of a new service account.
func ValidateServiceAccount(account *corev1.ServiceAccount) field.ErrorList {
	return metadata.Validate(&account.ObjectMeta, true, validation.NameIsDNSSubdomain, metadataPath)
}

// ValidateServiceAccountUpdate returns the errors of replacing old by account.
func ValidateServiceAccountUpdate(account, old *corev1.ServiceAccount) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&account.ObjectMeta, &old.ObjectMeta, metadataPath)
	return append(errs, ValidateServiceAccount(account)...)
}

// mountableSecretsAnnotation limited pods to the Secrets that their service
// account lists.
const mountableSecretsAnnotation = "kubernetes.io/enforce-mountable-secrets"

// ServiceAccountWarnings returns warnings for the author of a valid write: that
// an annotation which the write adds is deprecated. old is nil for a new
// account.
func ServiceAccountWarnings(account, old *corev1.ServiceAccount) []string {
	if old != nil && metav1.HasAnnotation(old.ObjectMeta, mountableSecretsAnnotation) ||
		!metav1.HasAnnotation(account.ObjectMeta, mountableSecretsAnnotation) {
		return nil
	}
	return []string{"metadata.annotations[" + mountableSecretsAnnotation + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}
