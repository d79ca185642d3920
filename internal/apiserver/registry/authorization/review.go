package authorization

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

var (
	_ rest.Creater              = review[runtime.Object]{}
	_ rest.Scoper               = review[runtime.Object]{}
	_ rest.SingularNameProvider = review[runtime.Object]{}
	_ rest.Storage              = review[runtime.Object]{}
)

// review serves one kind of review: the client creates the object, and the
// response is the object with the answer. Nothing is stored.
type review[T runtime.Object] struct {
	singular   string
	namespaced bool
	empty      T
	// validate returns an API error if the review is invalid.
	validate func(ctx context.Context, question T) error
	// answer returns the review with its status.
	answer func(ctx context.Context, question T) (T, error)
}

func (r review[T]) New() runtime.Object { return r.empty.DeepCopyObject() }

func (review[T]) Destroy() {}

func (r review[T]) NamespaceScoped() bool { return r.namespaced }

func (r review[T]) GetSingularName() string { return r.singular }

// Create answers obj, in a dry run too: a review changes nothing.
func (r review[T]) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	question, ok := obj.(T)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", r.singular, obj))
	}
	if err := r.validate(ctx, question); err != nil {
		return nil, err
	}
	if admit != nil {
		if err := admit(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	return r.answer(ctx, question)
}
