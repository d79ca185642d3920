package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// ValidatePod returns the errors of a new pod: of its identity, its node and its name.
// certplane does not run pods, so the node validates the details of running them.
func ValidatePod(pod *corev1.Pod) field.ErrorList {
	errs := metadata.Validate(&pod.ObjectMeta, true, validation.NameIsDNSSubdomain, metadataPath)
	specPath := field.NewPath("spec")
	errs = append(errs, validatePodSpec(&pod.Spec, specPath)...)
	errs = append(errs, validateImageTexts(pod.Spec.Containers, specPath.Child("containers"))...)
	return append(errs, validateImageTexts(pod.Spec.InitContainers, specPath.Child("initContainers"))...)
}

func validatePodSpec(spec *corev1.PodSpec, fldPath *field.Path) field.ErrorList {
	errs := validateContainers(spec, fldPath)
	errs = append(errs, validateVolumes(spec, fldPath.Child("volumes"))...)
	for _, identity := range []struct {
		name, value string
		check       func(string) []string
	}{
		{"serviceAccountName", spec.ServiceAccountName, isSubdomain},
		{"nodeName", spec.NodeName, isSubdomain},
		{"hostname", spec.Hostname, utilvalidation.IsDNS1123Label},
		{"subdomain", spec.Subdomain, utilvalidation.IsDNS1123Label},
	} {
		if identity.value == "" {
			continue
		}
		for _, problem := range identity.check(identity.value) {
			errs = append(errs, field.Invalid(fldPath.Child(identity.name), identity.value, problem))
		}
	}
	errs = append(errs, oneOf(spec.RestartPolicy, fldPath.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, oneOf(spec.DNSPolicy, fldPath.Child("dnsPolicy"),
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	if seconds := spec.ActiveDeadlineSeconds; seconds != nil && *seconds < 1 {
		errs = append(errs, field.Invalid(fldPath.Child("activeDeadlineSeconds"), *seconds, "must be between 1 and 2147483647, inclusive"))
	}
	return errs
}

func isSubdomain(name string) []string { return validation.NameIsDNSSubdomain(name, false) }

// validateContainers requires at least one container, and names that are unique
// in the pod.
func validateContainers(spec *corev1.PodSpec, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(fldPath.Child("containers"), ""))
	}
	names := map[string]bool{}
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"containers", spec.Containers}, {"initContainers", spec.InitContainers}} {
		for i, container := range list.containers {
			path := fldPath.Child(list.field).Index(i)
			errs = append(errs, validateName(container.Name, names, path.Child("name"))...)
			if container.Image == "" {
				errs = append(errs, field.Required(path.Child("image"), ""))
			}
			errs = append(errs, oneOf(container.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
				corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
			errs = append(errs, oneOf(container.ImagePullPolicy, path.Child("imagePullPolicy"),
				corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
			errs = append(errs, validateQuantities(container.Resources.Limits, path.Child("resources", "limits"))...)
			errs = append(errs, validateQuantities(container.Resources.Requests, path.Child("resources", "requests"))...)
		}
	}
	return errs
}

// validateImageTexts refuses spaces around an image: no node accepts them.
func validateImageTexts(containers []corev1.Container, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, container := range containers {
		if strings.TrimSpace(container.Image) != container.Image {
			errs = append(errs, field.Invalid(fldPath.Index(i).Child("image"), container.Image, "must not have leading or trailing whitespace"))
		}
	}
	return errs
}

func validateQuantities(resources corev1.ResourceList, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		quantity := resources[name]
		for _, problem := range utilvalidation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(fldPath, name, problem))
		}
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(fldPath.Key(string(name)), quantity.String(), "must be greater than or equal to 0"))
		}
	}
	return errs
}

// validateName checks a DNS label that must not be in seen, and adds it.
func validateName(name string, seen map[string]bool, fldPath *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(fldPath, "")}
	}
	var errs field.ErrorList
	for _, problem := range utilvalidation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(fldPath, name, problem))
	}
	if seen[name] {
		errs = append(errs, field.Duplicate(fldPath, name))
	}
	seen[name] = true
	return errs
}

func oneOf[T ~string](value T, fldPath *field.Path, known ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(fldPath, "")}
	}
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(fldPath, value, known)}
}
