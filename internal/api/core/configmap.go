package core

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// ValidateConfigMap returns the errors of a new config map.
func ValidateConfigMap(config *corev1.ConfigMap) field.ErrorList {
	errs := metadata.Validate(&config.ObjectMeta, true, validation.NameIsDNSSubdomain, metadataPath)
	binaryPath := field.NewPath("binaryData")
	size := 0
	for _, key := range slices.Sorted(maps.Keys(config.Data)) {
		errs = append(errs, validateDataKey(key, dataPath)...)
		if _, twice := config.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(dataPath.Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(config.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(config.BinaryData)) {
		errs = append(errs, validateDataKey(key, binaryPath)...)
		size += len(config.BinaryData[key])
	}
	// A config map has the same maximum size as a secret.
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

// ValidateConfigMapUpdate returns the errors of replacing old by config.
func ValidateConfigMapUpdate(config, old *corev1.ConfigMap) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&config.ObjectMeta, &old.ObjectMeta, metadataPath)
	if isSet(old.Immutable) {
		errs = append(errs, stillImmutable(config.Immutable)...)
		errs = append(errs, unchanged(config.Data, old.Data, dataPath)...)
		errs = append(errs, unchanged(config.BinaryData, old.BinaryData, field.NewPath("binaryData"))...)
	}
	return append(errs, ValidateConfigMap(config)...)
}

// validateDataKey checks a key, which must be a valid file name.
func validateDataKey(key string, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range utilvalidation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(fldPath.Key(key), key, problem))
	}
	return errs
}
