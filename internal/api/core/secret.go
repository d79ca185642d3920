package core

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

var (
	metadataPath = field.NewPath("metadata")
	dataPath     = field.NewPath("data")
)

// ValidateSecret returns the errors of a new secret.
func ValidateSecret(secret *corev1.Secret) field.ErrorList {
	errs := metadata.Validate(&secret.ObjectMeta, true, validation.NameIsDNSSubdomain, metadataPath)
	size := 0
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		errs = append(errs, validateDataKey(key, dataPath)...)
		size += len(secret.Data[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(dataPath, "", corev1.MaxSecretSize))
	}
	return append(errs, validateSecretType(secret)...)
}

// ValidateSecretUpdate returns the errors of replacing old by secret.
func ValidateSecretUpdate(secret, old *corev1.Secret) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&secret.ObjectMeta, &old.ObjectMeta, metadataPath)
	errs = append(errs, validation.ValidateImmutableField(secret.Type, old.Type, field.NewPath("type"))...)
	if isSet(old.Immutable) {
		errs = append(errs, stillImmutable(secret.Immutable)...)
		errs = append(errs, unchanged(secret.Data, old.Data, dataPath)...)
	}
	return append(errs, ValidateSecret(secret)...)
}

// validateSecretType checks the keys on which the readers of a type rely. Types
// that are not listed here, such as that of bootstrap tokens, can contain
// anything.
func validateSecretType(secret *corev1.Secret) field.ErrorList {
	switch secret.Type {
	case corev1.SecretTypeServiceAccountToken:
		return requireServiceAccount(secret)
	case corev1.SecretTypeDockercfg:
		return requireJSON(secret, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		return requireJSON(secret, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		return requireBasicAuth(secret)
	case corev1.SecretTypeSSHAuth:
		if len(secret.Data[corev1.SSHAuthPrivateKey]) == 0 {
			return field.ErrorList{field.Required(dataPath.Key(corev1.SSHAuthPrivateKey), "")}
		}
	case corev1.SecretTypeTLS:
		return requireKeys(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return nil
}

// requireKeys requires that the keys exist; a value may be empty, for another
// client to fill in.
func requireKeys(secret *corev1.Secret, keys ...string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range keys {
		if _, ok := secret.Data[key]; !ok {
			errs = append(errs, field.Required(dataPath.Key(key), ""))
		}
	}
	return errs
}

func requireServiceAccount(secret *corev1.Secret) field.ErrorList {
	if secret.Annotations[corev1.ServiceAccountNameKey] == "" {
		return field.ErrorList{field.Required(metadataPath.Child("annotations").Key(corev1.ServiceAccountNameKey), "")}
	}
	return nil
}

func requireBasicAuth(secret *corev1.Secret) field.ErrorList {
	_, hasName := secret.Data[corev1.BasicAuthUsernameKey]
	_, hasPassword := secret.Data[corev1.BasicAuthPasswordKey]
	if hasName || hasPassword {
		return nil
	}
	return field.ErrorList{
		field.Required(dataPath.Key(corev1.BasicAuthUsernameKey), ""),
		field.Required(dataPath.Key(corev1.BasicAuthPasswordKey), ""),
	}
}

func requireJSON(secret *corev1.Secret, key string) field.ErrorList {
	value, ok := secret.Data[key]
	if !ok {
		return field.ErrorList{field.Required(dataPath.Key(key), "")}
	}
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(dataPath.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

func isSet(flag *bool) bool { return flag != nil && *flag }

// stillImmutable requires that an immutable object stays immutable.
func stillImmutable(immutable *bool) field.ErrorList {
	if isSet(immutable) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set")}
}

// unchanged refuses changed content without repeating it.
func unchanged(content, old any, fldPath *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(content, old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(fldPath, "field is immutable when `immutable` is set")}
}
