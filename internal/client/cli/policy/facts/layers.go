package facts

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// Over is a client.Reader that reads objects missing in First from Then.
type Over struct {
	First *Store
	Then  client.Reader
}

// Get implements client.Reader.
func (o Over) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := o.First.Get(ctx, key, into, options...)
	if apierrors.IsNotFound(err) {
		return o.Then.Get(ctx, key, into, options...)
	}
	return err
}

// List implements client.Reader: it returns the objects of First, if it has any.
func (o Over) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	kind, err := o.First.kindOf(into)
	if err != nil {
		return err
	}
	if len(o.First.objects[kind.GroupKind()]) > 0 {
		return o.First.List(ctx, into, options...)
	}
	return o.Then.List(ctx, into, options...)
}

// Access is a policies.AccessFunc that asks then what First does not know.
func (o Over) Access(then policies.AccessFunc) policies.AccessFunc {
	return func(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
		allowed, err := o.First.Access(ctx, who, what)
		if errors.Is(err, policies.ErrNotKnown) {
			return then(ctx, who, what)
		}
		return allowed, err
	}
}
