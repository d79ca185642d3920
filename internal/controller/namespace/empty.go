package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// content is the remaining content of a namespace after an attempt to empty it.
type content struct {
	// undiscovered is why some kinds are unknown. Objects of these kinds may be
	// left.
	undiscovered error
	// failed is why some objects could not be deleted.
	failed []error
	// objects counts the remaining objects of each resource.
	objects map[schema.GroupResource]int
	// finalizers counts, for each finalizer, the objects that wait for it.
	finalizers map[string]int
}

// err returns what went wrong, or nil. Objects that wait for finalizers are not
// an error.
func (c content) err() error {
	return errors.Join(append(slices.Clone(c.failed), c.undiscovered)...)
}

// Discover returns the namespaced kinds, each in one version. With an error
// about some kinds, it still returns the others.
type Discover func(ctx context.Context) ([]*metav1.APIResourceList, error)

// emptier deletes the objects of any kind in namespaces.
type emptier struct {
	discover Discover
	objects  metadata.Interface
}

// empty deletes what is in a namespace and returns what is left.
func (e emptier) empty(ctx context.Context, namespace string) content {
	left := content{objects: map[schema.GroupResource]int{}, finalizers: map[string]int{}}
	lists, err := e.discover(ctx)
	left.undiscovered = err
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete", "list"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			left.failed = append(left.failed, fmt.Errorf("reading the group version %q: %w", list.GroupVersion, err))
			continue
		}
		for _, resource := range list.APIResources {
			gvr := version.WithResource(resource.Name)
			inCollection := slices.Contains(resource.Verbs, "deletecollection")
			if err := e.emptyOf(ctx, namespace, gvr, inCollection, &left); err != nil && !isNotServed(err) {
				left.failed = append(left.failed, fmt.Errorf("deleting %s: %w", gvr.GroupResource(), err))
			}
		}
	}
	return left
}

// emptyOf deletes the objects of one resource and adds those that remain to the content.
func (e emptier) emptyOf(ctx context.Context, namespace string, gvr schema.GroupVersionResource, inCollection bool, left *content) error {
	objects := e.objects.Resource(gvr).Namespace(namespace)
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if inCollection {
		if err := objects.DeleteCollection(ctx, options, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if !inCollection && len(list.Items) > 0 {
		for _, object := range list.Items {
			if err := objects.Delete(ctx, object.Name, options); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if list, err = objects.List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	left.add(gvr.GroupResource(), list.Items)
	return nil
}

func (c content) add(resource schema.GroupResource, objects []metav1.PartialObjectMetadata) {
	if len(objects) > 0 {
		c.objects[resource] = len(objects)
	}
	for _, object := range objects {
		for _, finalizer := range object.Finalizers {
			c.finalizers[finalizer]++
		}
	}
}

// isNotServed reports whether err means that a kind is not served: it can be
// removed between its discovery and its use.
func isNotServed(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
