package worker

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// firstRetry and lastRetry bound the pauses between failing attempts of InEveryProcess.
const firstRetry, lastRetry = 200 * time.Millisecond, 15 * time.Second

// InEveryProcess returns the options of a controller whose results each process needs to
// serve its clients. It works with or without the lease. After a failure, it tries again
// soon, because clients are not answered until the cause, such as a missing right, is fixed.
func InEveryProcess() controller.Options {
	return controller.Options{
		NeedLeaderElection: ptr.To(false),
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}

// OneSecret restricts a cache of Secrets to one.
func OneSecret(key client.ObjectKey) cache.ByObject {
	return cache.ByObject{
		Field:      fields.OneTermEqualSelector("metadata.name", key.Name),
		Namespaces: map[string]cache.Config{key.Namespace: {}},
	}
}

// ReadSecret returns a Secret, nil if it does not exist.
func ReadSecret(ctx context.Context, api client.Reader, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := api.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, err
}

// KeepSecret makes an API store the data of a Secret in place of the version read: if
// several processes do so, one succeeds. A Secret that did not exist (nil) is created with a
// key and a type.
func KeepSecret(ctx context.Context, api client.Writer, read *corev1.Secret, key client.ObjectKey, kind corev1.SecretType, data map[string][]byte, manager client.FieldOwner) error {
	if read == nil {
		return api.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{ManagedByLabel: ManagedBy}},
			Type:       kind, Data: data,
		}, manager)
	}
	changed := read.DeepCopy()
	changed.Data = data
	return api.Update(ctx, changed, manager)
}

// The label of objects that certplane keeps for itself, and its value.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "certplane"
)
