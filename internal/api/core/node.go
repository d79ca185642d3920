package core

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// ValidateNode reports what is wrong with a new node.
func ValidateNode(node *corev1.Node) field.ErrorList {
	errs := metadata.Validate(&node.ObjectMeta, false, validation.NameIsDNSSubdomain, metadataPath)
	specPath := field.NewPath("spec")
	errs = append(errs, validateTaints(node.Spec.Taints, specPath.Child("taints"))...)
	errs = append(errs, validatePodCIDRs(node.Spec, specPath)...)
	errs = append(errs, validateQuantities(node.Status.Capacity, field.NewPath("status", "capacity"))...)
	return append(errs, validateQuantities(node.Status.Allocatable, field.NewPath("status", "allocatable"))...)
}

// ValidateNodeUpdate reports what is wrong with replacing old by node. What a
// node is stays: whoever manages its machine or its pods has built on it.
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
	return append(errs, ValidateNode(node)...)
}

// fixedOf is spec without the fields that may change or have an answer of
// their own.
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

// validatePodCIDRs wants one range of each IP family at most. podCIDR is the
// older name of the first one.
func validatePodCIDRs(spec corev1.NodeSpec, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	path := fldPath.Child("podCIDRs")
	families := map[bool]bool{}
	for i, cidr := range spec.PodCIDRs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), cidr, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
			continue
		}
		if families[prefix.Addr().Is4()] {
			errs = append(errs, field.Invalid(path, spec.PodCIDRs, "may specify no more than one CIDR for each IP family"))
		}
		families[prefix.Addr().Is4()] = true
	}
	if len(spec.PodCIDRs) > 0 && spec.PodCIDR != spec.PodCIDRs[0] {
		errs = append(errs, field.Invalid(path.Index(0), spec.PodCIDRs[0], "must be equal to podCIDR"))
	}
	return errs
}

func validateQuantities(resources corev1.ResourceList, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, quantity := range resources {
		for _, problem := range utilvalidation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(fldPath, name, problem))
		}
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(fldPath.Key(string(name)), quantity.String(), "must be greater than or equal to 0"))
		}
	}
	return errs
}
