package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// sizeErrors makes the stores of next tell clients about objects that are too
// large for etcd: the library calls that an internal error.
type sizeErrors struct{ next generic.RESTOptionsGetter }

func explainSizes(next generic.RESTOptionsGetter) generic.RESTOptionsGetter { return sizeErrors{next} }

func (s sizeErrors) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := s.next.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	open := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string,
		keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := open(config, prefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
		return sizedStore{store}, destroy, err
	}
	return options, nil
}

type sizedStore struct{ storage.Interface }

func (s sizedStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return explainSize(s.Interface.Create(ctx, key, obj, out, ttl))
}

func (s sizedStore) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	return explainSize(s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, cached))
}

func explainSize(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), clientRefusal) {
		err = rpctypes.ErrRequestTooLarge
	}
	var refusal rpctypes.EtcdError
	if errors.As(err, &refusal) && refusal.Error() == rpctypes.ErrRequestTooLarge.Error() {
		return tooLarge{refusal}
	}
	return err
}

// clientRefusal is how etcd's client refuses what has more than 2 MiB, without
// asking the server.
const clientRefusal = "rpc error: code = ResourceExhausted desc = trying to send message larger than max"

// tooLarge is etcd's error for the library, which tries again without the
// field managers, and an answer for the client.
type tooLarge struct{ rpctypes.EtcdError }

// Status implements errors.APIStatus.
func (tooLarge) Status() metav1.Status {
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusRequestEntityTooLarge,
		Reason:  metav1.StatusReasonRequestEntityTooLarge,
		Message: "the object is too large: with its metadata, it must fit into 1.5 MiB (etcd's limit, unless its operator has changed it)",
	}
}
