package lean

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The types below are the types of metadata with their fields in alphabetical order. The
// library writes JSON in this order, and both writers must store and send the same bytes.

type sortedMetadata struct {
	Annotations                map[string]string  `json:"annotations,omitempty"`
	CreationTimestamp          metav1.Time        `json:"creationTimestamp,omitempty,omitzero"`
	DeletionGracePeriodSeconds *int64             `json:"deletionGracePeriodSeconds,omitempty"`
	DeletionTimestamp          *metav1.Time       `json:"deletionTimestamp,omitempty"`
	Finalizers                 []string           `json:"finalizers,omitempty"`
	GenerateName               string             `json:"generateName,omitempty"`
	Generation                 int64              `json:"generation,omitempty"`
	Labels                     map[string]string  `json:"labels,omitempty"`
	ManagedFields              []sortedManagement `json:"managedFields,omitempty"`
	Name                       string             `json:"name,omitempty"`
	Namespace                  string             `json:"namespace,omitempty"`
	OwnerReferences            []sortedOwner      `json:"ownerReferences,omitempty"`
	ResourceVersion            string             `json:"resourceVersion,omitempty"`
	SelfLink                   string             `json:"selfLink,omitempty"`
	UID                        types.UID          `json:"uid,omitempty"`
}

type sortedManagement struct {
	APIVersion  string                            `json:"apiVersion,omitempty"`
	FieldsType  string                            `json:"fieldsType,omitempty"`
	FieldsV1    *metav1.FieldsV1                  `json:"fieldsV1,omitempty"`
	Manager     string                            `json:"manager,omitempty"`
	Operation   metav1.ManagedFieldsOperationType `json:"operation,omitempty"`
	Subresource string                            `json:"subresource,omitempty"`
	Time        *metav1.Time                      `json:"time,omitempty"`
}

type sortedOwner struct {
	APIVersion         string    `json:"apiVersion"`
	BlockOwnerDeletion *bool     `json:"blockOwnerDeletion,omitempty"`
	Controller         *bool     `json:"controller,omitempty"`
	Kind               string    `json:"kind"`
	Name               string    `json:"name"`
	UID                types.UID `json:"uid"`
}

func marshalMetadata(m *metav1.ObjectMeta) ([]byte, error) {
	sorted := sortedMetadata{
		Annotations: m.Annotations, CreationTimestamp: m.CreationTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		DeletionTimestamp: m.DeletionTimestamp, Finalizers: m.Finalizers, GenerateName: m.GenerateName, Generation: m.Generation,
		Labels: m.Labels, Name: m.Name, Namespace: m.Namespace, ResourceVersion: m.ResourceVersion, SelfLink: m.GetSelfLink(), UID: m.UID,
	}
	for _, e := range m.ManagedFields {
		sorted.ManagedFields = append(sorted.ManagedFields, sortedManagement{
			APIVersion: e.APIVersion, FieldsType: e.FieldsType, FieldsV1: e.FieldsV1, Manager: e.Manager, Operation: e.Operation,
			Subresource: e.Subresource, Time: e.Time,
		})
	}
	for _, o := range m.OwnerReferences {
		sorted.OwnerReferences = append(sorted.OwnerReferences, sortedOwner{
			APIVersion: o.APIVersion, BlockOwnerDeletion: o.BlockOwnerDeletion, Controller: o.Controller, Kind: o.Kind, Name: o.Name, UID: o.UID,
		})
	}
	return json.Marshal(sorted)
}

// metadataMap returns metadata as JSON values, like those of an unstructured object.
func metadataMap(o *metav1.ObjectMeta) (map[string]any, error) {
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("converting the metadata of %s: %w", o.Name, err)
	}
	if metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	return metadata, nil
}

// setMetadata replaces the metadata with the metadata of an unstructured object.
func (o *Object) setMetadata(from *unstructured.Unstructured) error {
	o.ObjectMeta = metav1.ObjectMeta{}
	metadata, ok := from.Object["metadata"].(map[string]any)
	if !ok {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(metadata, &o.ObjectMeta); err != nil {
		return fmt.Errorf("reading the metadata of %s %s: %w", o.Kind, o.Name, err)
	}
	return nil
}
