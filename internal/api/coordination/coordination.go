// Package coordination has the defaults and the validation of the objects of
// coordination.k8s.io.
package coordination

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// AddToScheme registers Lease in v1, which is the internal version too.
func AddToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: coordinationv1.GroupName, Version: runtime.APIVersionInternal}
	for _, gv := range []schema.GroupVersion{coordinationv1.SchemeGroupVersion, internal} {
		scheme.AddKnownTypes(gv, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
	}
	metav1.AddToGroupVersion(scheme, coordinationv1.SchemeGroupVersion)
	if err := scheme.SetVersionPriority(coordinationv1.SchemeGroupVersion); err != nil {
		return fmt.Errorf("ordering the versions of %s: %w", coordinationv1.GroupName, err)
	}
	return nil
}

// ValidateLease returns the errors of a new lease.
func ValidateLease(lease *coordinationv1.Lease) field.ErrorList {
	errs := metadata.Validate(&lease.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateSpec(&lease.Spec, field.NewPath("spec"))...)
}

// ValidateLeaseUpdate returns the errors of replacing old by lease.
func ValidateLeaseUpdate(lease, old *coordinationv1.Lease) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&lease.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateSpec(&lease.Spec, field.NewPath("spec"))...)
}

func validateSpec(spec *coordinationv1.LeaseSpec, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if seconds := spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(fldPath.Child("leaseDurationSeconds"), *seconds, "must be greater than 0"))
	}
	if transitions := spec.LeaseTransitions; transitions != nil && *transitions < 0 {
		errs = append(errs, field.Invalid(fldPath.Child("leaseTransitions"), *transitions, "must be greater than or equal to 0"))
	}
	switch strategy := spec.Strategy; {
	case strategy != nil && *strategy != coordinationv1.OldestEmulationVersion:
		errs = append(errs, field.NotSupported(fldPath.Child("strategy"), *strategy,
			[]coordinationv1.CoordinatedLeaseStrategy{coordinationv1.OldestEmulationVersion}))
	case strategy == nil && spec.PreferredHolder != nil && *spec.PreferredHolder != "":
		errs = append(errs, field.Forbidden(fldPath.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}
