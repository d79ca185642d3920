package garbage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/process/eventtext"
)

// collector decides about objects and acts.
type collector struct {
	objects metadata.Interface
	events  events.EventRecorder
	graph   *graph
	kinds   func() kinds
	// changed is called with the objects to decide about.
	changed func(types.UID)
}

// collect decides about one object and carries out the decision. Each action
// leads to a watch event.
func (c *collector) collect(ctx context.Context, uid types.UID) error {
	n, ok := c.graph.get(uid)
	if !ok {
		return nil
	}
	// The graph may be late: decide from the server's state.
	object, err := c.read(ctx, n.kind, n.namespace.Value(), n.name)
	if apierrors.IsNotFound(err) || err == nil && object.UID != uid {
		c.graph.forget(uid)
		return nil
	}
	if err != nil {
		return err
	}
	f, err := c.factsOf(ctx, object)
	if err != nil {
		return err
	}
	return c.act(ctx, n, object, decide(f))
}

func (c *collector) read(ctx context.Context, k *kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	return c.objects.Resource(k.resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c *collector) factsOf(ctx context.Context, object *metav1.PartialObjectMetadata) (facts, error) {
	f := facts{
		owners:     map[types.UID]ownerState{},
		deleting:   !object.DeletionTimestamp.IsZero(),
		foreground: slices.Contains(object.Finalizers, metav1.FinalizerDeleteDependents),
		orphan:     slices.Contains(object.Finalizers, metav1.FinalizerOrphanDependents),
		dependents: c.graph.dependentsOf(object.UID),
	}
	if f.deleting {
		return f, nil // whatever its owners are, it goes
	}
	for _, ref := range object.OwnerReferences {
		state, err := c.ownerState(ctx, ref, object.Namespace)
		if err != nil {
			return facts{}, err
		}
		f.owners[ref.UID] = state
	}
	return f, nil
}

// ownerState asks the server about an owner that the graph does not know: only
// the server can say that an object does not exist.
func (c *collector) ownerState(ctx context.Context, ref metav1.OwnerReference, namespace string) (ownerState, error) {
	k, namespace, ok := c.kinds().ownerPlace(ref, namespace)
	if !ok {
		return unknown, nil
	}
	if state, ok := c.graph.stateOf(ref.UID, k, namespace); ok {
		return state, nil
	}
	found, err := c.read(ctx, k, namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err):
		return absent, nil
	case err != nil:
		return unknown, fmt.Errorf("looking for the owner %s %s: %w", k.resource.GroupResource(), ref.Name, err)
	case found.UID != ref.UID:
		return absent, nil
	case !found.DeletionTimestamp.IsZero() && slices.Contains(found.Finalizers, metav1.FinalizerDeleteDependents):
		return waiting, nil
	}
	return present, nil
}

func (c *collector) act(ctx context.Context, n *node, object *metav1.PartialObjectMetadata, v verdict) error {
	switch v.action {
	case orphanDependents:
		if err := c.orphan(ctx, object.UID, v.dependents); err != nil {
			return err
		}
		return c.dropFinalizer(ctx, n, object, metav1.FinalizerOrphanDependents)
	case deleteDependents:
		for _, uid := range v.dependents {
			c.changed(uid)
		}
	case finish:
		return c.dropFinalizer(ctx, n, object, metav1.FinalizerDeleteDependents)
	case detach:
		_, err := c.setOwners(ctx, n, object, without(object.OwnerReferences, v.lost))
		return err
	case collect:
		return c.delete(ctx, n, object, v)
	}
	return nil
}

// orphan removes an owner from all its dependents.
func (c *collector) orphan(ctx context.Context, owner types.UID, dependents []types.UID) error {
	var errs []error
	for _, uid := range dependents {
		n, ok := c.graph.get(uid)
		if !ok {
			continue
		}
		object, err := c.read(ctx, n.kind, n.namespace.Value(), n.name)
		if err == nil && object.UID == uid {
			_, err = c.setOwners(ctx, n, object, without(object.OwnerReferences, []types.UID{owner}))
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("orphaning %s %s: %w", n.kind.resource.GroupResource(), n.name, err))
		}
	}
	return errors.Join(errs...)
}

func (c *collector) delete(ctx context.Context, n *node, object *metav1.PartialObjectMetadata, v verdict) error {
	if v.unblock {
		unblocked := slices.Clone(object.OwnerReferences)
		for i := range unblocked {
			unblocked[i].BlockOwnerDeletion = nil
		}
		patched, err := c.setOwners(ctx, n, object, unblocked)
		if err != nil {
			return err
		}
		object = patched
	}
	log.FromContext(ctx).Info("Deleting an object whose owners are gone", "resource", n.kind.resource.GroupResource(),
		"namespace", object.Namespace, "name", object.Name, "uid", object.UID, "propagationPolicy", v.policy)
	// If the object changed after the decision, the deletion must fail.
	err := c.objects.Resource(n.kind.resource).Namespace(object.Namespace).Delete(ctx, object.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion},
		PropagationPolicy: &v.policy,
	})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		c.reportRefused(ctx, n, object, err)
		return errRefused{err}
	}
	return fmt.Errorf("deleting %s %s: %w", n.kind.resource.GroupResource(), object.Name, err)
}

// errRefused is the error of the API if it does not permit a deletion.
type errRefused struct{ error }

func isRefused(err error) bool { return errors.As(err, &errRefused{}) }

// reportRefused reports that an object stays although its owners were deleted.
func (c *collector) reportRefused(ctx context.Context, n *node, object *metav1.PartialObjectMetadata, cause error) {
	log.FromContext(ctx).Info("An object whose owners are gone is not deleted, because the API refuses that; remove the owners from metadata.ownerReferences, or delete it",
		"resource", n.kind.resource.GroupResource(), "namespace", object.Namespace, "name", object.Name, "cause", cause.Error())
	about := &corev1.ObjectReference{
		APIVersion: n.kind.resource.GroupVersion().String(), Kind: n.kind.name, Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
	c.events.Eventf(about, nil, corev1.EventTypeWarning, "OwnersGone", "Deleting",
		"%s", eventtext.Fit("The owners in metadata.ownerReferences are gone, but the API refuses to delete the object: "+cause.Error()+" Remove the owners, or delete it."))
}

func without(refs []metav1.OwnerReference, lost []types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return slices.Contains(lost, ref.UID) })
}
