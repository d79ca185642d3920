package manifests

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/api/certificates"
)

// validateVolume looks at what the agent has to write. Volumes that need
// nobody to write them may be there, and mean nothing here.
func validateVolume(volume *corev1.Volume, fldPath *field.Path) field.ErrorList {
	switch {
	case volume.Projected != nil:
		return validateProjected(volume.Projected, fldPath.Child("projected"))
	case volume.EmptyDir != nil, volume.HostPath != nil, volume.VolumeSource == (corev1.VolumeSource{}):
		return nil
	}
	return field.ErrorList{field.Forbidden(fldPath, "an agent writes projected volumes only: put what this one has under projected.sources")}
}

func validateProjected(projected *corev1.ProjectedVolumeSource, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(projected.Sources) == 0 {
		errs = append(errs, field.Required(fldPath.Child("sources"), ""))
	}
	errs = append(errs, validateMode(projected.DefaultMode, fldPath.Child("defaultMode"))...)
	errs = append(errs, validateUser(projected.DefaultUser, fldPath.Child("defaultUser"))...)
	taken := paths{}
	for i := range projected.Sources {
		errs = append(errs, validateSource(&projected.Sources[i], taken, fldPath.Child("sources").Index(i))...)
	}
	return errs
}

// validateSource wants exactly one kind of source that the agent knows.
func validateSource(source *corev1.VolumeProjection, taken paths, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	kinds := 0
	found := func(more field.ErrorList) {
		errs = append(errs, more...)
		kinds++
	}
	if s := source.PodCertificate; s != nil {
		found(validateCertificate(s, taken, fldPath.Child("podCertificate")))
	}
	if s := source.ClusterTrustBundle; s != nil {
		found(validateTrustBundle(s, taken, fldPath.Child("clusterTrustBundle")))
	}
	if s := source.ServiceAccountToken; s != nil {
		found(validateToken(s, taken, fldPath.Child("serviceAccountToken")))
	}
	if s := source.ConfigMap; s != nil {
		found(validateObject(s.Name, s.Items, taken, fldPath.Child("configMap")))
	}
	if s := source.Secret; s != nil {
		found(validateObject(s.Name, s.Items, taken, fldPath.Child("secret")))
	}
	if source.DownwardAPI != nil {
		found(field.ErrorList{field.Forbidden(fldPath.Child("downwardAPI"), "not on a host: the manifest is there itself, and no container is run that had limits")})
	}
	switch {
	case kinds == 0:
		errs = append(errs, field.Required(fldPath, "must have one of podCertificate, clusterTrustBundle, serviceAccountToken, configMap, secret"))
	case kinds > 1:
		errs = append(errs, field.Forbidden(fldPath, "may not specify more than 1 volume type"))
	}
	return errs
}

func validateCertificate(s *corev1.PodCertificateProjection, taken paths, fldPath *field.Path) field.ErrorList {
	errs := certificates.ValidateSignerName(fldPath.Child("signerName"), s.SignerName)
	if types := credential.KeyTypes(); !slices.Contains(types, s.KeyType) {
		errs = append(errs, field.NotSupported(fldPath.Child("keyType"), s.KeyType, types))
	}
	errs = append(errs, validateExpiration(s, fldPath.Child("maxExpirationSeconds"))...)
	errs = append(errs, validateUser(s.User, fldPath.Child("user"))...)
	if s.CredentialBundlePath == "" && s.KeyPath == "" && s.CertificateChainPath == "" {
		errs = append(errs, field.Required(fldPath, "must have at least one of credentialBundlePath, keyPath, certificateChainPath"))
	}
	for _, file := range []struct{ field, path string }{
		{"credentialBundlePath", s.CredentialBundlePath}, {"keyPath", s.KeyPath}, {"certificateChainPath", s.CertificateChainPath},
	} {
		if file.path != "" {
			errs = append(errs, taken.add(file.path, fldPath.Child(file.field))...)
		}
	}
	return errs
}

// validateExpiration knows the API's limits: a day for Kubernetes' own signers,
// 91 days for all others.
func validateExpiration(s *corev1.PodCertificateProjection, fldPath *field.Path) field.ErrorList {
	if s.MaxExpirationSeconds == nil {
		return nil
	}
	longest := int32(91 * 24 * 60 * 60)
	domain, _, _ := strings.Cut(s.SignerName, "/")
	if domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		longest = 24 * 60 * 60
	}
	seconds := *s.MaxExpirationSeconds
	switch {
	case seconds < 60*60:
		return field.ErrorList{field.Invalid(fldPath, seconds, "if provided, maxExpirationSeconds must be >= 3600")}
	case seconds > longest:
		return field.ErrorList{field.Invalid(fldPath, seconds, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", longest))}
	}
	return nil
}

func validateTrustBundle(s *corev1.ClusterTrustBundleProjection, taken paths, fldPath *field.Path) field.ErrorList {
	errs := taken.add(s.Path, fldPath.Child("path"))
	errs = append(errs, validateUser(s.User, fldPath.Child("user"))...)
	switch {
	case s.Name != nil && s.SignerName != nil:
		errs = append(errs, field.Invalid(fldPath, *s.Name, "only one of name and signerName may be used"))
	case s.Name == nil && s.SignerName == nil:
		errs = append(errs, field.Required(fldPath, "either name or signerName must be specified"))
	case s.Name != nil && *s.Name == "":
		errs = append(errs, field.Required(fldPath.Child("name"), ""))
	case s.Name != nil && s.LabelSelector != nil:
		errs = append(errs, field.Invalid(fldPath.Child("labelSelector"), s.LabelSelector, "labelSelector must be unset if name is specified"))
	case s.SignerName != nil:
		errs = append(errs, certificates.ValidateSignerName(fldPath.Child("signerName"), *s.SignerName)...)
		errs = append(errs, metavalidation.ValidateLabelSelector(s.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, fldPath.Child("labelSelector"))...)
	}
	return errs
}

func validateToken(s *corev1.ServiceAccountTokenProjection, taken paths, fldPath *field.Path) field.ErrorList {
	errs := taken.add(s.Path, fldPath.Child("path"))
	errs = append(errs, validateUser(s.User, fldPath.Child("user"))...)
	if seconds := s.ExpirationSeconds; seconds != nil && (*seconds < 600 || *seconds > 1<<32) {
		errs = append(errs, field.Invalid(fldPath.Child("expirationSeconds"), *seconds, "must be from 600 to 4294967296"))
	}
	return errs
}

// validateObject is about ConfigMaps and Secrets. Without items, their keys
// are the paths, which are known only when the object is.
func validateObject(name string, items []corev1.KeyToPath, taken paths, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(fldPath.Child("name"), ""))
	}
	for i, item := range items {
		at := fldPath.Child("items").Index(i)
		if item.Key == "" {
			errs = append(errs, field.Required(at.Child("key"), ""))
		}
		errs = append(errs, taken.add(item.Path, at.Child("path"))...)
		errs = append(errs, validateMode(item.Mode, at.Child("mode"))...)
		errs = append(errs, validateUser(item.User, at.Child("user"))...)
	}
	return errs
}

func validateMode(mode *int32, fldPath *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(fldPath, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}

func validateUser(user *int64, fldPath *field.Path) field.ErrorList {
	if user != nil && (*user < 0 || *user > 1<<31-1) {
		return field.ErrorList{field.Invalid(fldPath, *user, "must be from 0 to 2147483647")}
	}
	return nil
}

// paths are those of a volume, each with the field that has it. Tokens are
// among them: of two sources with one path, neither is left out silently.
type paths map[string]string

func (p paths) add(name string, fldPath *field.Path) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(fldPath, "")}
	case path.IsAbs(name):
		return field.ErrorList{field.Invalid(fldPath, name, "must be a relative path")}
	case slices.Contains(strings.Split(name, "/"), ".."):
		return field.ErrorList{field.Invalid(fldPath, name, "must not contain '..'")}
	case strings.HasPrefix(name, ".."):
		return field.ErrorList{field.Invalid(fldPath, name, "must not start with '..'")}
	}
	if clean := path.Clean(name); clean != name || clean == "." {
		return field.ErrorList{field.Invalid(fldPath, name, "must name a file, and be written as short as can be")}
	}
	for other, at := range p {
		switch {
		case other == name:
			return field.ErrorList{field.Invalid(fldPath, name, "is the path of "+at+" too")}
		case strings.HasPrefix(other, name+"/"), strings.HasPrefix(name, other+"/"):
			return field.ErrorList{field.Invalid(fldPath, name, "conflicts with "+at+", one of which is in the other")}
		}
	}
	p[name] = fldPath.String()
	return nil
}
