package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// sizedStore returns an API error for objects that are too large for etcd: the
// library returns an internal error.
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

// clientRefusal is the error with which etcd's client refuses more than 2 MiB,
// without calling the server.
const clientRefusal = "rpc error: code = ResourceExhausted desc = trying to send message larger than max"

// tooLarge is etcd's error for the library, which retries without the field
// managers, and an API status for the client.
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
