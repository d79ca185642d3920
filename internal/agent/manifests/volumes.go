package manifests

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules below are rules of the agent in addition to the rules of the API.

// validateVolume checks a volume that the agent has to write. Volumes without files from
// the agent are allowed, and ignored here.
func validateVolume(volume *corev1.Volume, fldPath *field.Path) field.ErrorList {
	switch {
	case volume.Projected != nil:
		return validateProjected(volume.Projected, paths{}, fldPath.Child("projected"))
	case volume.EmptyDir != nil, volume.HostPath != nil, volume.VolumeSource == (corev1.VolumeSource{}):
		return nil
	}
	return field.ErrorList{field.Forbidden(fldPath, "an agent writes only projected volumes: move the content of this volume to projected.sources")}
}

func validateProjected(projected *corev1.ProjectedVolumeSource, taken paths, fldPath *field.Path) field.ErrorList {
	errs := validateUser(projected.DefaultUser, fldPath.Child("defaultUser"))
	if len(projected.Sources) == 0 {
		errs = append(errs, field.Required(fldPath.Child("sources"), ""))
	}
	for i := range projected.Sources {
		errs = append(errs, validateSource(&projected.Sources[i], taken, fldPath.Child("sources").Index(i))...)
	}
	return errs
}

func validateSource(source *corev1.VolumeProjection, taken paths, fldPath *field.Path) field.ErrorList {
	switch {
	case source.PodCertificate != nil:
		return validateCertificate(source.PodCertificate, taken, fldPath.Child("podCertificate"))
	case source.ClusterTrustBundle != nil:
		s, at := source.ClusterTrustBundle, fldPath.Child("clusterTrustBundle")
		return append(taken.add(s.Path, at.Child("path")), validateUser(s.User, at.Child("user"))...)
	case source.ServiceAccountToken != nil:
		return validateToken(source.ServiceAccountToken, taken, fldPath.Child("serviceAccountToken"))
	case source.ConfigMap != nil:
		return validateObject(source.ConfigMap.Name, source.ConfigMap.Items, taken, fldPath.Child("configMap"))
	case source.Secret != nil:
		return validateObject(source.Secret.Name, source.Secret.Items, taken, fldPath.Child("secret"))
	case source.DownwardAPI != nil:
		return field.ErrorList{field.Forbidden(fldPath.Child("downwardAPI"), "not supported on a host: the labels and annotations are in the manifest, and containers with limits are not run")}
	}
	return field.ErrorList{field.Required(fldPath, "must have one of podCertificate, clusterTrustBundle, serviceAccountToken, configMap, secret")}
}

func validateCertificate(s *corev1.PodCertificateProjection, taken paths, fldPath *field.Path) field.ErrorList {
	errs := validateUser(s.User, fldPath.Child("user"))
	for _, file := range []struct{ field, path string }{
		{"credentialBundlePath", s.CredentialBundlePath}, {"keyPath", s.KeyPath}, {"certificateChainPath", s.CertificateChainPath},
	} {
		if file.path != "" {
			errs = append(errs, taken.add(file.path, fldPath.Child(file.field))...)
		}
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

// validateObject checks ConfigMaps and Secrets. Without items, their keys are
// the paths, which are known only when the object is.
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
		if mode := item.Mode; mode != nil && (*mode < 0 || *mode > 0o777) {
			errs = append(errs, field.Invalid(at.Child("mode"), *mode, "must be a number between 0 and 0777 (octal), both inclusive"))
		}
		errs = append(errs, taken.add(item.Path, at.Child("path"))...)
		errs = append(errs, validateUser(item.User, at.Child("user"))...)
	}
	return errs
}

func validateUser(user *int64, fldPath *field.Path) field.ErrorList {
	if user != nil && (*user < 0 || *user > 1<<31-1) {
		return field.ErrorList{field.Invalid(fldPath, *user, "must be from 0 to 2147483647")}
	}
	return nil
}

// paths are the paths of a volume's files, each with the field that has it.
// Tokens are included: if two sources have the same path, neither is dropped
// silently.
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
	case path.Clean(name) != name || name == ".":
		return field.ErrorList{field.Invalid(fldPath, name, "must be the shortest form of a path to a file")}
	}
	for _, other := range slices.Sorted(maps.Keys(p)) {
		at := p[other]
		switch {
		case other == name:
			return field.ErrorList{field.Invalid(fldPath, name, "is the path of "+at+" too")}
		case strings.HasPrefix(other, name+"/"), strings.HasPrefix(name, other+"/"):
			return field.ErrorList{field.Invalid(fldPath, name, "cannot be a file together with "+other+", the path of "+at)}
		}
	}
	p[name] = fldPath.String()
	return nil
}
