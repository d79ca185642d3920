package kind

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api"
)

// strategy has the rules for writes through one endpoint of a kind.
type strategy[T, L any] struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind   *Kind[T, L]
	update Update[T]
}

var (
	_ rest.RESTCreateStrategy              = strategy[int, int]{}
	_ rest.RESTUpdateStrategy              = strategy[int, int]{}
	_ rest.RESTDeleteStrategy              = strategy[int, int]{}
	_ rest.GarbageCollectionDeleteStrategy = strategy[int, int]{}
	_ rest.ResetFieldsStrategy             = strategy[int, int]{}
)

func strategyOf[T, L any](kind *Kind[T, L], update Update[T]) strategy[T, L] {
	return strategy[T, L]{ObjectTyper: api.Scheme, NameGenerator: names.SimpleNameGenerator, kind: kind, update: update}
}

func (s strategy[T, L]) NamespaceScoped() bool { return s.kind.Namespaced }

func (s strategy[T, L]) AllowCreateOnUpdate(context.Context) bool { return s.kind.PutCreates }

func (s strategy[T, L]) AllowUnconditionalUpdate(context.Context) bool {
	return !s.kind.NeedsResourceVersion
}

func (s strategy[T, L]) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	if s.kind.OwnsNothing {
		return rest.Unsupported
	}
	return rest.DeleteDependents
}

func (s strategy[T, L]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if s.kind.PrepareCreate != nil {
		s.kind.PrepareCreate(typed[T](obj))
	}
}

func (s strategy[T, L]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.update.PrepareUpdate != nil {
		s.update.PrepareUpdate(typed[T](obj), typed[T](old))
	}
}

func (s strategy[T, L]) Canonicalize(obj runtime.Object) {
	if s.kind.Canonicalize != nil {
		s.kind.Canonicalize(typed[T](obj))
	}
}

func (s strategy[T, L]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if s.kind.Validate != nil {
		errs = s.kind.Validate(typed[T](obj))
	}
	if s.kind.Check != nil {
		errs = append(errs, s.kind.Check(ctx, typed[T](obj), nil)...)
	}
	return errs
}

func (s strategy[T, L]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if s.update.ValidateUpdate != nil {
		errs = s.update.ValidateUpdate(typed[T](obj), typed[T](old))
	}
	if s.kind.Check != nil {
		errs = append(errs, s.kind.Check(ctx, typed[T](obj), typed[T](old))...)
	}
	return errs
}

func (s strategy[T, L]) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	if s.kind.Warn == nil {
		return nil
	}
	return s.kind.Warn(typed[T](obj), nil)
}

func (s strategy[T, L]) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	if s.kind.Warn == nil {
		return nil
	}
	return s.kind.Warn(typed[T](obj), typed[T](old))
}

// GetResetFields keeps field managers from owning fields that updates restore.
func (s strategy[T, L]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range s.update.Resets {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.kind.Version.String()): set}
}
