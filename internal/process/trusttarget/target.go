// Package trusttarget reads and writes the ConfigMaps and Secrets from which programs read the
// certificates that they trust.
package trusttarget

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The kinds of targets.
const (
	ConfigMap = "ConfigMap"
	Secret    = "Secret"
)

// Target is the wanted state of the fields of one field manager. Fields and keys of others stay.
type Target struct {
	// Kind is ConfigMap or Secret.
	Kind string
	types.NamespacedName
	// UID restricts a write to the object with this UID: without an object, it fails by a
	// conflict; with another object of the name, it is invalid. Without a UID, a target that
	// does not exist is created.
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

// Apply creates the target or makes it equal. Keys that the manager has written before and that
// the target lacks are removed. The API refuses, as invalid, an object of another controller.
func (w Writer) Apply(ctx context.Context, t Target) error {
	_, err := w.apply(ctx, t)
	return err
}

// Empty takes the keys of the manager out of the object with a UID, and deletes it if no others
// are left. An object that is gone is not an error.
func (w Writer) Empty(ctx context.Context, t Target) error {
	t.Text, t.Binary = nil, nil
	left, err := w.apply(ctx, t)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the object or its namespace is gone
	}
	for _, field := range []string{"data", "binaryData"} {
		if data, _, _ := unstructured.NestedMap(left.Object, field); err != nil || len(data) > 0 {
			return err
		}
	}
	// Another client may add a key meanwhile: then the version differs.
	uid, version := left.GetUID(), left.GetResourceVersion()
	return client.IgnoreNotFound(w.Client.Delete(ctx, left, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

func (w Writer) apply(ctx context.Context, t Target) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(t.Kind))
	object.SetNamespace(t.Namespace)
	object.SetName(t.Name)
	object.SetUID(t.UID)
	object.SetOwnerReferences([]metav1.OwnerReference{t.Owner})
	object.SetLabels(t.Labels)
	object.SetAnnotations(t.Annotations)
	if err := SetData(object, t.Text, t.Binary); err != nil {
		return nil, err
	}
	return object, w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, w.Manager)
}

// SetData sets the data of a ConfigMap or Secret; see Target for text and binary.
func SetData(object *unstructured.Unstructured, text map[string]string, binary map[string][]byte) error {
	data, encoded := map[string]any{}, map[string]any{}
	for key, value := range binary {
		encoded[key] = base64.StdEncoding.EncodeToString(value)
	}
	switch object.GetKind() {
	case ConfigMap:
		for key, value := range text {
			data[key] = value
		}
		object.Object["data"], object.Object["binaryData"] = data, encoded
	case Secret:
		for key, value := range text {
			encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
		}
		object.Object["data"] = encoded
	default:
		return fmt.Errorf("the kind %q is not one of %s, %s", object.GetKind(), ConfigMap, Secret)
	}
	return nil
}

// Data returns the data of a ConfigMap or Secret.
func Data(object *unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for _, field := range []string{"binaryData", "data"} {
		values, _, _ := unstructured.NestedStringMap(object.Object, field)
		for key, value := range values {
			if field == "binaryData" || object.GetKind() == Secret {
				decoded, _ := base64.StdEncoding.DecodeString(value) // the API encodes it
				value = string(decoded)
			}
			all[key] = value
		}
	}
	return all
}

// Read lists the objects of a kind in a namespace, with a name unless that is empty. api needs the
// verb list, and must read past caches.
func Read(ctx context.Context, api client.Reader, kind schema.GroupVersionKind, namespace, name string, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if name != "" {
		options = append(options, client.MatchingFields{metav1.ObjectNameField: name})
	}
	err := api.List(ctx, list, append(options, client.InNamespace(namespace))...)
	return list.Items, err
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
		owned.Iterate(func(path fieldpath.Path) {
			if field := path[:1].String(); len(path) == 2 && (field == ".data" || field == ".binaryData") {
				keys[strings.TrimPrefix(path[1:].String(), ".")] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(keys)), nil
}
