package admissionregistration

import (
	"context"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/api/admissionregistration"
)

var (
	_ rest.RESTCreateStrategy  = strategy{}
	_ rest.RESTUpdateStrategy  = strategy{}
	_ rest.RESTDeleteStrategy  = strategy{}
	_ rest.ResetFieldsStrategy = strategy{}
)

// strategy is the same for all six kinds.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	spec   func(runtime.Object) any
	params *paramReaders
}

func newStrategy(k kind, params *paramReaders) strategy {
	return strategy{ObjectTyper: api.Scheme, NameGenerator: names.SimpleNameGenerator, spec: k.spec, params: params}
}

func (strategy) NamespaceScoped() bool { return false }

func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

func (strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	obj.(metav1.Object).SetGeneration(1)
	if policy, ok := obj.(*v1.ValidatingAdmissionPolicy); ok {
		policy.Status = v1.ValidatingAdmissionPolicyStatus{}
	}
}

func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if policy, ok := obj.(*v1.ValidatingAdmissionPolicy); ok {
		policy.Status = old.(*v1.ValidatingAdmissionPolicy).Status
	}
	if !equality.Semantic.DeepEqual(s.spec(obj), s.spec(old)) {
		obj.(metav1.Object).SetGeneration(old.(metav1.Object).GetGeneration() + 1)
	}
}

// Validate asks last who may read the parameters, because that is a question
// about a policy that makes sense.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if errs := admissionregistration.Validate(obj); len(errs) > 0 {
		return errs
	}
	return s.params.mayRead(ctx, obj, nil)
}

func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if errs := admissionregistration.ValidateUpdate(obj, old); len(errs) > 0 {
		return errs
	}
	return s.params.mayRead(ctx, obj, old)
}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (strategy) Canonicalize(runtime.Object) {}

// GetResetFields says what a writer of the object itself cannot own.
func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1.SchemeGroupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	}
}
