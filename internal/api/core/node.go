package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/certplane/certplane/internal/api/metadata"
)

// ValidateNode returns the errors of a new node.
func ValidateNode(node *corev1.Node) field.ErrorList { return validateNode(node, nil) }

// validateNode accepts ranges that were stored before ranges were validated.
func validateNode(node *corev1.Node, storedRanges []string) field.ErrorList {
	errs := metadata.Validate(&node.ObjectMeta, false, validation.NameIsDNSSubdomain, metadataPath)
	// Kubernetes uses this path for the fields of a node, in particular for
	// taints.
	errs = append(errs, validateTaints(node.Spec.Taints, metadataPath.Child("taints"))...)
	errs = append(errs, validatePodCIDRs(node.Spec.PodCIDRs, storedRanges, field.NewPath("spec", "podCIDRs"))...)
	errs = append(errs, validateAmounts(node.Status.Capacity, field.NewPath("status", "capacity"))...)
	return append(errs, validateAmounts(node.Status.Allocatable, field.NewPath("status", "allocatable"))...)
}

// ValidateNodeUpdate returns the errors of replacing old by node. Most of the
// spec is immutable: the programs that manage the machine or its pods depend on
// it.
func ValidateNodeUpdate(node, old *corev1.Node) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&node.ObjectMeta, &old.ObjectMeta, metadataPath)
	specPath := field.NewPath("spec")
	if len(old.Spec.PodCIDRs) > 0 && !equality.Semantic.DeepEqual(node.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(specPath.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	if old.Spec.ProviderID != "" && node.Spec.ProviderID != old.Spec.ProviderID {
		errs = append(errs, field.Forbidden(specPath.Child("providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	if !equality.Semantic.DeepEqual(fixedOf(node.Spec), fixedOf(old.Spec)) {
		errs = append(errs, field.Forbidden(specPath, "node updates may only change labels, taints, or capacity"))
	}
	return append(errs, validateNode(node, old.Spec.PodCIDRs)...)
}

// fixedOf returns spec without the fields that may change or are validated
// separately.
func fixedOf(spec corev1.NodeSpec) corev1.NodeSpec {
	spec.PodCIDR, spec.PodCIDRs, spec.ProviderID = "", nil, ""
	//lint:ignore SA1019 clients of old nodes may still send or clear it
	spec.Taints, spec.Unschedulable, spec.ConfigSource = nil, false, nil
	return spec
}

func validateTaints(taints []corev1.Taint, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for i, taint := range taints {
		path := fldPath.Index(i)
		for _, problem := range content.IsLabelKey(taint.Key) {
			errs = append(errs, field.Invalid(path.Child("key"), taint.Key, problem))
		}
		for _, problem := range content.IsLabelValue(taint.Value) {
			errs = append(errs, field.Invalid(path.Child("value"), taint.Value, problem))
		}
		errs = append(errs, validateTaintEffect(taint.Effect, path.Child("effect"))...)
		id := identity{taint.Key, taint.Effect}
		if seen[id] {
			duplicate := field.Duplicate(path, taint)
			duplicate.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, duplicate)
		}
		seen[id] = true
	}
	return errs
}

func validateTaintEffect(effect corev1.TaintEffect, fldPath *field.Path) field.ErrorList {
	switch effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	case "":
		return field.ErrorList{field.Required(fldPath, "")}
	default:
		return field.ErrorList{field.NotSupported(fldPath, effect,
			[]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute})}
	}
}

// validatePodCIDRs requires at most one range of each IP family.
func validatePodCIDRs(ranges, stored []string, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, text := range ranges {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(fldPath.Index(i), text, true, stored)...)
	}
	if len(ranges) < 2 {
		return errs
	}
	both, err := netutils.IsDualStackCIDRStrings(ranges)
	if err != nil {
		errs = append(errs, field.InternalError(fldPath, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
	}
	if !both || len(ranges) > 2 {
		errs = append(errs, field.Invalid(fldPath, ranges, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

// validateAmounts requires integers for resources that cannot be divided.
func validateAmounts(resources corev1.ResourceList, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		quantity, path := resources[name], fldPath.Child(string(name))
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(path, quantity.String(), "must be greater than or equal to 0"))
		}
		if isCounted(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(path, quantity.String(), "must be an integer"))
		}
	}
	return errs
}

// isCounted reports whether a resource is counted in integers: pods are, and
// resources in a domain outside of Kubernetes.
func isCounted(name corev1.ResourceName) bool {
	domain, _, extended := strings.Cut(string(name), "/")
	return name == corev1.ResourcePods || extended && !strings.Contains(domain+"/", corev1.ResourceDefaultNamespacePrefix)
}
