package worker

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MostConfigMap is how much a ConfigMap can hold, in bytes.
const MostConfigMap = 1 << 20

// SizeOfConfigMap returns how much of that a ConfigMap holds.
func SizeOfConfigMap(stored *corev1.ConfigMap) (size int) {
	for key, value := range stored.Data {
		size += len(key) + len(value)
	}
	for key, value := range stored.BinaryData {
		size += len(key) + len(value)
	}
	return size
}

// KeepConfigMap has an API store a ConfigMap with the labels of wanted, and with its
// data and nothing else. One that cannot be updated, because a user has made it
// immutable, is created again.
func KeepConfigMap(ctx context.Context, api client.Client, wanted *corev1.ConfigMap, manager client.FieldOwner) error {
	stored := &corev1.ConfigMap{}
	err := api.Get(ctx, client.ObjectKeyFromObject(wanted), stored)
	switch {
	case apierrors.IsNotFound(err):
		return api.Create(ctx, wanted.DeepCopy(), manager)
	case err != nil:
		return err
	}
	labels := maps.Clone(stored.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, wanted.Labels)
	if maps.Equal(stored.Data, wanted.Data) && len(stored.BinaryData) == 0 && maps.Equal(stored.Labels, labels) {
		return nil
	}
	stored.Data, stored.BinaryData, stored.Labels = wanted.Data, nil, labels
	if err = api.Update(ctx, stored, manager); !apierrors.IsInvalid(err) {
		return err
	}
	if err := api.Delete(ctx, stored, client.Preconditions{UID: &stored.UID}); err != nil {
		return err
	}
	return api.Create(ctx, wanted.DeepCopy(), manager)
}
