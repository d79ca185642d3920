package lean

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy has the rules for writes of whole objects.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	*definition
}

// statusStrategy has the rules for writes of the status.
type statusStrategy struct{ strategy }

var (
	_ rest.RESTCreateStrategy  = strategy{}
	_ rest.RESTUpdateStrategy  = strategy{}
	_ rest.RESTDeleteStrategy  = strategy{}
	_ rest.ResetFieldsStrategy = strategy{}
	_ rest.RESTUpdateStrategy  = statusStrategy{}
	_ rest.ResetFieldsStrategy = statusStrategy{}
)

func (s strategy) NamespaceScoped() bool { return s.namespaced }

func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

func (strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

func (strategy) Canonicalize(runtime.Object) {}

// PrepareForCreate removes the status, unless objects are created with it.
func (s strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	o := obj.(*Object)
	if !s.owned {
		o.Status = ""
	}
	s.manage(o)
	o.Generation = 1
}

// PrepareForUpdate restores the status, and counts changes of everything but the
// metadata.
func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, before := obj.(*Object), old.(*Object)
	o.Status = before.Status
	s.manage(o)
	if !s.sameContent(o, before) {
		o.Generation = before.Generation + 1
	}
}

// PrepareForUpdate restores everything except the status and the managed fields, which
// record its owner.
func (s statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o := obj.(*Object)
	status, managed := o.Status, o.ManagedFields
	*o = *old.DeepCopyObject().(*Object)
	o.Status, o.ManagedFields = status, managed
	s.manage(o)
}

// manage removes the managed fields of an object whose fields are not managed. Such an
// object has some if it was written before, or by another server.
func (d *definition) manage(o *Object) {
	if d.owned {
		o.ManagedFields = nil
	}
}

// sameContent compares like the library, for which null and empty lists are equal.
func (d *definition) sameContent(a, b *Object) bool {
	if a.TypeMeta == b.TypeMeta && a.Spec == b.Spec && a.Status == b.Status {
		return true
	}
	contentA, errA := d.content(a)
	contentB, errB := d.content(b)
	return errA == nil && errB == nil && equality.Semantic.DeepEqual(contentA, contentB)
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return finalizerWarnings(obj.(*Object).Finalizers, nil)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	return finalizerWarnings(obj.(*Object).Finalizers, old.(*Object).Finalizers)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (statusStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// finalizerWarnings warns about new finalizers whose names may conflict with others, with
// the library's wording.
func finalizerWarnings(all, before []string) []string {
	added := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(before, name) })
	slices.Sort(added)
	var warnings []string
	for _, name := range slices.Compact(added) {
		for _, problem := range validation.IsQualifiedName(name) {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", name, problem))
		}
		standard := []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes)}
		if strings.Contains(name, "/") || slices.Contains(standard, name) {
			continue
		}
		including := ""
		if strings.Contains(name, ".") {
			including = " including a path (/)"
		}
		warnings = append(warnings, fmt.Sprintf(
			"metadata.finalizers: %q: prefer a domain-qualified finalizer name%s to avoid accidental conflicts with other finalizer writers", name, including))
	}
	return warnings
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return s.validateNew(ctx, obj.(*Object))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validateChange(ctx, obj.(*Object), old.(*Object))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validateStatus(ctx, obj.(*Object), old.(*Object))
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.reset("status")
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.reset("metadata", "spec")
}

func (d *definition) reset(fields ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range fields {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(d.kind.GroupVersion().String()): set}
}
