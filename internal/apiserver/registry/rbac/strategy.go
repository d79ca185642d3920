package rbac

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/api/rbac"
)

var (
	_ rest.RESTCreateStrategy = strategy{}
	_ rest.RESTUpdateStrategy = strategy{}
	_ rest.RESTDeleteStrategy = strategy{}
)

// strategy is the same for all four kinds except for their scope: objects are stored
// unchanged, and PUT may create them.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	namespaced bool
}

func newStrategy(namespaced bool) strategy {
	return strategy{ObjectTyper: api.Scheme, NameGenerator: names.SimpleNameGenerator, namespaced: namespaced}
}

func (s strategy) NamespaceScoped() bool { return s.namespaced }

func (strategy) AllowCreateOnUpdate(context.Context) bool { return true }

func (strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

func (strategy) PrepareForCreate(context.Context, runtime.Object) {}

func (strategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}

func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return rbac.Validate(obj)
}

func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return rbac.ValidateUpdate(obj, old)
}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (strategy) Canonicalize(runtime.Object) {}
