// Package trusttarget writes the ConfigMaps and Secrets from which programs read the
// certificates that they trust.
package trusttarget

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The kinds of targets.
const (
	ConfigMap = "ConfigMap"
	Secret    = "Secret"
)

// Target is the wanted state of the fields that belong to one field manager. Other fields of
// the object, and other keys of its data, stay as they are.
type Target struct {
	// Kind is ConfigMap or Secret.
	Kind string
	types.NamespacedName
	// UID restricts a write to the object with this UID. Without an object, it fails by a
	// conflict; with another object of the name, it is invalid. No UID means that the target
	// is created if it does not exist.
	UID types.UID
	// Owner is the object that the target is deleted with.
	Owner               metav1.OwnerReference
	Labels, Annotations map[string]string
	// Text are keys in "data". Binary are keys in "binaryData" of a ConfigMap, and in
	// "data" of a Secret.
	Text   map[string]string
	Binary map[string][]byte
}

// Writer writes targets by server-side apply. It is safe for concurrent use.
type Writer struct {
	// Client needs the verbs create and patch on the kinds of targets, and delete for Empty.
	Client client.Client
	// Manager is the field manager. Its fields are taken from other managers by force.
	Manager client.FieldOwner
}

// Apply creates the target or makes it equal. Keys that the manager has written before and
// that the target lacks are removed. It returns the error of the API: one that is invalid also
// if another controller owns the object.
func (w Writer) Apply(ctx context.Context, t Target) error {
	_, err := w.apply(ctx, t)
	return err
}

// Empty takes the keys of the manager out of the object with a UID, and deletes it if no others
// are left. Otherwise it keeps the labels and the owner of t. An object that is gone is not an
// error.
func (w Writer) Empty(ctx context.Context, t Target) error {
	t.Text, t.Binary = nil, nil
	left, err := w.apply(ctx, t)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the object, or its namespace, is gone
	case err != nil || left.keys > 0:
		return err
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name}}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(t.Kind))
	// The version: another client may add a key meanwhile.
	err = w.Client.Delete(ctx, object, client.Preconditions{UID: left.uid, ResourceVersion: left.version})
	return client.IgnoreNotFound(err)
}

// result is what a write left.
type result struct {
	uid     *types.UID
	version *string
	keys    int
}

func (w Writer) apply(ctx context.Context, t Target) (result, error) {
	owner := applymetav1.OwnerReference().WithAPIVersion(t.Owner.APIVersion).WithKind(t.Owner.Kind).WithName(t.Owner.Name).WithUID(t.Owner.UID)
	owner.Controller, owner.BlockOwnerDeletion = t.Owner.Controller, t.Owner.BlockOwnerDeletion
	switch t.Kind {
	case ConfigMap:
		wanted := applycorev1.ConfigMap(t.Name, t.Namespace).WithOwnerReferences(owner).
			WithLabels(t.Labels).WithAnnotations(t.Annotations).WithData(t.Text).WithBinaryData(t.Binary)
		if t.UID != "" {
			wanted.WithUID(t.UID)
		}
		err := w.Client.Apply(ctx, wanted, client.ForceOwnership, w.Manager)
		return result{wanted.UID, wanted.ResourceVersion, len(wanted.Data) + len(wanted.BinaryData)}, err
	case Secret:
		data := maps.Clone(t.Binary)
		if data == nil {
			data = map[string][]byte{}
		}
		for key, value := range t.Text {
			data[key] = []byte(value)
		}
		wanted := applycorev1.Secret(t.Name, t.Namespace).WithOwnerReferences(owner).
			WithLabels(t.Labels).WithAnnotations(t.Annotations).WithData(data)
		if t.UID != "" {
			wanted.WithUID(t.UID)
		}
		err := w.Client.Apply(ctx, wanted, client.ForceOwnership, w.Manager)
		return result{wanted.UID, wanted.ResourceVersion, len(wanted.Data)}, err
	}
	return result{}, fmt.Errorf("the kind %q is not one of %s, %s", t.Kind, ConfigMap, Secret)
}

// Keys returns the sorted keys of the data of a ConfigMap or Secret that a field manager owns,
// from its metadata alone.
func Keys(object metav1.Object, manager client.FieldOwner) ([]string, error) {
	keys := map[string]bool{}
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != string(manager) || entry.FieldsV1 == nil {
			continue
		}
		owned := fieldpath.Set{}
		if err := owned.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("reading the managed fields of %s: %w", manager, err)
		}
		for _, field := range []string{"data", "binaryData"} {
			within := owned.WithPrefix(fieldpath.PathElement{FieldName: &field})
			within.Iterate(func(path fieldpath.Path) {
				if len(path) > 0 {
					keys[strings.TrimPrefix(path[:1].String(), ".")] = true
				}
			})
		}
	}
	return slices.Sorted(maps.Keys(keys)), nil
}
