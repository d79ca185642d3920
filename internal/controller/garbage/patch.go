package garbage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// setOwners and dropFinalizer write one list of an object if the object has not
// changed since it was read: a merge patch replaces the whole list (RFC 7386).

func (c *collector) setOwners(ctx context.Context, n *node, object *metav1.PartialObjectMetadata, owners []metav1.OwnerReference) (*metav1.PartialObjectMetadata, error) {
	return c.patch(ctx, n, object, "ownerReferences", owners)
}

func (c *collector) dropFinalizer(ctx context.Context, n *node, object *metav1.PartialObjectMetadata, finalizer string) error {
	left := slices.DeleteFunc(slices.Clone(object.Finalizers), func(name string) bool { return name == finalizer })
	_, err := c.patch(ctx, n, object, "finalizers", left)
	return err
}

func (c *collector) patch(ctx context.Context, n *node, object *metav1.PartialObjectMetadata, field string, value any) (*metav1.PartialObjectMetadata, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             object.UID,
		"resourceVersion": object.ResourceVersion,
		field:             value,
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	objects := c.objects.Resource(n.kind.resource).Namespace(object.Namespace)
	patched, err := objects.Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("writing the %s of %s %s: %w", field, n.kind.resource.GroupResource(), object.Name, err)
	}
	return patched, nil
}
