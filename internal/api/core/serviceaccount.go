package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// ValidateServiceAccount reports what is wrong with a new service account.
func ValidateServiceAccount(account *corev1.ServiceAccount) field.ErrorList {
	return metadata.Validate(&account.ObjectMeta, true, validation.NameIsDNSSubdomain, metadataPath)
}

// ValidateServiceAccountUpdate reports what is wrong with replacing old by
// account.
func ValidateServiceAccountUpdate(account, old *corev1.ServiceAccount) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&account.ObjectMeta, &old.ObjectMeta, metadataPath)
	return append(errs, ValidateServiceAccount(account)...)
}
