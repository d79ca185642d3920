package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// ValidatePodUpdate returns the errors of replacing old by pod: except for a few fields, a
// running pod is the pod that was admitted.
func ValidatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	errs := validatePodMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta)
	specPath := field.NewPath("spec")
	errs = append(errs, validateImages(pod.Spec.Containers, specPath.Child("containers"))...)
	errs = append(errs, validateImages(pod.Spec.InitContainers, specPath.Child("initContainers"))...)
	errs = append(errs, validateDeadlineChange(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, specPath.Child("activeDeadlineSeconds"))...)
	errs = append(errs, validateTolerationChange(pod.Spec.Tolerations, old.Spec.Tolerations, specPath.Child("tolerations"))...)
	errs = append(errs, validateGateChange(pod.Spec.SchedulingGates, old.Spec.SchedulingGates, specPath.Child("schedulingGates"))...)
	if len(errs) > 0 {
		return errs
	}
	return validateFixedSpec(&pod.Spec, &old.Spec, specPath)
}

// ValidatePodStatusUpdate returns the errors of replacing old by pod through
// /status.
func ValidatePodStatusUpdate(pod, old *corev1.Pod) field.ErrorList {
	errs := validatePodMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta)
	if node := pod.Status.NominatedNodeName; node != "" {
		for _, problem := range isSubdomain(node) {
			errs = append(errs, field.Invalid(field.NewPath("status", "nominatedNodeName"), node, problem))
		}
	}
	return errs
}

func validatePodMetaUpdate(meta, old *metav1.ObjectMeta) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(meta, old, metadataPath)
	return append(errs, validateFixedAnnotations(meta.Annotations, old.Annotations, metadataPath.Child("annotations"))...)
}

// validateFixedAnnotations refuses changes of some annotations. The mirror annotation,
// which marks a pod that runs without the API server, determines which users may create the
// pod and which objects it may refer to, so it cannot change. The annotations that confine
// its containers cannot change either.
func validateFixedAnnotations(annotations, old map[string]string, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	keys := slices.AppendSeq(slices.Collect(maps.Keys(annotations)), maps.Keys(old))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		kind := fixedAnnotation(key)
		is, set := annotations[key]
		was, wasSet := old[key]
		switch {
		case kind == "" || set == wasSet && is == was:
		case wasSet:
			errs = append(errs, field.Forbidden(fldPath.Key(key), "may not remove or update "+kind))
		default:
			errs = append(errs, field.Forbidden(fldPath.Key(key), "may not add "+kind))
		}
	}
	return errs
}

// fixedAnnotation returns the meaning of an annotation that never changes, or
// "" for all others.
func fixedAnnotation(key string) string {
	switch {
	case key == corev1.MirrorPodAnnotationKey:
		return "mirror pod annotation"
	case strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix):
		return "AppArmor annotations"
	}
	return ""
}

// validateFixedSpec compares the rest of the spec, after the mutable fields
// have been restored.
func validateFixedSpec(spec, old *corev1.PodSpec, fldPath *field.Path) field.ErrorList {
	reverted := spec.DeepCopy()
	revertImages(reverted.Containers, old.Containers)
	revertImages(reverted.InitContainers, old.InitContainers)
	reverted.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	reverted.Tolerations = old.Tolerations
	reverted.SchedulingGates = old.SchedulingGates
	if ptr.Deref(old.TerminationGracePeriodSeconds, 0) < 0 && ptr.Deref(spec.TerminationGracePeriodSeconds, 0) == 1 {
		reverted.TerminationGracePeriodSeconds = old.TerminationGracePeriodSeconds
	}
	if equality.Semantic.DeepEqual(reverted, old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(fldPath, "pod updates may not change fields other than "+
		"`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"+
		"`spec.tolerations` (only additions to existing tolerations),"+
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"+
		diff.Diff(old, reverted))}
}

func revertImages(containers, old []corev1.Container) {
	for i := range min(len(containers), len(old)) {
		containers[i].Image = old[i].Image
	}
}

func validateImages(containers []corev1.Container, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, container := range containers {
		if container.Image == "" {
			errs = append(errs, field.Required(fldPath.Index(i).Child("image"), ""))
		}
	}
	return errs
}

// validateDeadlineChange allows a deadline to be set and to be made earlier.
func validateDeadlineChange(seconds, old *int64, fldPath *field.Path) field.ErrorList {
	switch {
	case seconds == nil && old == nil:
		return nil
	case seconds == nil:
		return field.ErrorList{field.Invalid(fldPath, nil, "must not update from a positive integer to nil value")}
	case *seconds < 0:
		return field.ErrorList{field.Invalid(fldPath, *seconds, "must be greater than or equal to 0")}
	case old != nil && *seconds > *old:
		return field.ErrorList{field.Invalid(fldPath, *seconds, "must be less than or equal to previous value")}
	default:
		return nil
	}
}

// validateTolerationChange allows tolerations to be added. The old ones must
// remain, but their duration may change.
func validateTolerationChange(tolerations, old []corev1.Toleration, fldPath *field.Path) field.ErrorList {
	for _, was := range old {
		if !slices.ContainsFunc(tolerations, func(is corev1.Toleration) bool {
			is.TolerationSeconds = was.TolerationSeconds
			return equality.Semantic.DeepEqual(is, was)
		}) {
			return field.ErrorList{field.Forbidden(fldPath, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

// validateGateChange allows gates only to be removed.
func validateGateChange(gates, old []corev1.PodSchedulingGate, fldPath *field.Path) field.ErrorList {
	for i, gate := range gates {
		if !slices.Contains(old, gate) {
			return field.ErrorList{field.Forbidden(fldPath.Index(i).Child("name"), "only deletion is allowed, but found new scheduling gate '"+gate.Name+"'")}
		}
	}
	return nil
}
