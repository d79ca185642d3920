package rbac

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/certplane/certplane/internal/api/metadata"
)

// guarded writes to its store only if check finds that the user may grant what
// obj grants. On create, old is nil; if PUT or apply create, it is an empty
// object.
type guarded struct {
	*genericregistry.Store
	check func(ctx context.Context, obj, old runtime.Object) error
}

var _ rest.StandardStorage = guarded{}

func (g guarded) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if err := g.check(ctx, obj, nil); err != nil {
		return nil, err
	}
	return g.Store.Create(ctx, obj, validate, options)
}

func (g guarded) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	checked := rest.WrapUpdatedObjectInfo(info, func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
		if metadata.IsCleanup(obj, old) {
			return obj, nil
		}
		return obj, g.check(ctx, obj, old)
	})
	return g.Store.Update(ctx, name, checked, createValidation, updateValidation, forceAllowCreate, options)
}
