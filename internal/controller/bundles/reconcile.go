package bundles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/trusttarget"
	"github.com/certplane/certplane/internal/process/worker"
)

// outcome is what a pass over a Bundle has led to.
type outcome struct {
	// reason and message are those of the condition Synced, version is that of the default
	// CAs.
	reason, message, version string
	// written reports whether a target was written.
	written bool
	// again is the wait before the next pass; 0 means until something changes. After err,
	// the passes have growing pauses.
	again time.Duration
	err   error
}

// Reconcile brings the targets of a Bundle up to date.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	b := &trustmanager.Bundle{}
	err := r.Client.Get(ctx, request.NamespacedName, b)
	if err != nil || b.DeletionTimestamp != nil { // the garbage collector deletes the targets
		r.forget(request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	o := r.sync(ctx, b)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil
	}
	result, err := worker.Kept(o.again, errors.Join(o.err, r.report(ctx, b, o)))
	if err != nil {
		return result, fmt.Errorf("writing the targets of the Bundle %s: %w", b.Name, err)
	}
	return result, nil
}

func (r *reconciler) sync(ctx context.Context, b *trustmanager.Bundle) outcome {
	set, version, err := r.collect(ctx, b.Spec.Sources)
	var all []target
	if err == nil {
		all, err = r.targets(ctx, b)
	}
	failed := outcome{reason: "SourceBuildError", message: fmt.Sprintf("Failed to build bundle sources: %v", err), version: b.Status.DefaultCAVersion}
	switch {
	case errors.As(err, &missingError{}):
		failed.reason, failed.message = "SourceNotFound", fmt.Sprintf("Bundle source was not found: %v", err)
	case errors.As(err, &contentError{}):
		failed.again = worker.RefusedPause
	case err != nil:
		failed.err = err
	case b.Spec.Target.Secret != nil && r.secretsOf(b) == nil:
		failed.reason, failed.message = "SecretTargetsDisabled", "Bundle has Secret targets but the feature is disabled"
	default:
		o := r.write(ctx, b, set, all)
		o.version = version
		return o
	}
	return failed
}

// target is an object that is a target of a Bundle, or has been one.
type target struct {
	kind string
	types.NamespacedName
	// template is nil if the object is no longer a target, and stored, its metadata, if it
	// does not exist.
	template *trustmanager.TargetTemplate
	stored   *metav1.PartialObjectMetadata
}

// version returns the version in the cache, "" if the object is not there.
func (t target) version() string {
	return ptr.Deref(t.stored, metav1.PartialObjectMetadata{}).ResourceVersion
}

// targets returns the targets of a Bundle, sorted by kind and namespace.
func (r *reconciler) targets(ctx context.Context, b *trustmanager.Bundle) (all []target, err error) {
	selector, err := selectorOf(b)
	if err != nil {
		return nil, contentError{fmt.Errorf("reading namespaceSelector: %w", err)}
	}
	namespaces := &corev1.NamespaceList{}
	if err := r.Namespaces.List(ctx, namespaces, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	for _, of := range []struct {
		kind     string
		template *trustmanager.TargetTemplate
		objects  cache.Cache
	}{{trusttarget.ConfigMap, b.Spec.Target.ConfigMap, r.objects}, {trusttarget.Secret, b.Spec.Target.Secret, r.secretsOf(b)}} {
		if of.objects == nil {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(of.kind + "List"))
		if err := of.objects.List(ctx, list, client.MatchingLabels{trustmanager.BundleLabel: b.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing targets of the kind %s: %w", of.kind, err)
		}
		stored := map[types.NamespacedName]*metav1.PartialObjectMetadata{}
		for i := range list.Items {
			stored[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
		}
		for _, namespace := range namespaces.Items {
			name := types.NamespacedName{Namespace: namespace.Name, Name: b.Name}
			if of.template != nil && namespace.DeletionTimestamp == nil && r.Settings.writesTo(namespace.Name) {
				all = append(all, target{of.kind, name, of.template, stored[name]})
				delete(stored, name)
			}
		}
		for name, object := range stored {
			all = append(all, target{of.kind, name, nil, object})
		}
	}
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// secretsOf returns the cache of the Secrets of a Bundle, nil if it may not write any.
func (r *reconciler) secretsOf(b *trustmanager.Bundle) cache.Cache {
	if all := r.secrets[AllSecretTargets]; all != nil {
		return all
	}
	return r.secrets[b.Name]
}

// synced describes that all targets are up to date.
func (r *reconciler) synced(b *trustmanager.Bundle) outcome {
	all, of := "all ", ""
	if selector, err := selectorOf(b); err == nil && !selector.Empty() {
		all, of = "", " that match this label selector: "+selector.String()
	}
	if len(r.Settings.TargetNamespaces) > 0 {
		all += "allowed "
	}
	return outcome{reason: trustmanager.ConditionSynced, message: "Successfully synced Bundle to " + all + "namespaces" + of}
}

// report writes the outcome into the status of a Bundle, and an Event if it is new.
func (r *reconciler) report(ctx context.Context, b *trustmanager.Bundle, o outcome) error {
	condition := metav1.Condition{
		Type: trustmanager.ConditionSynced, Status: metav1.ConditionFalse, Reason: o.reason, Message: eventtext.Line(o.message),
		ObservedGeneration: b.Generation, LastTransitionTime: metav1.Time{Time: r.Clock.Now()},
	}
	kind, action := corev1.EventTypeWarning, "SyncFailed"
	if o.reason == trustmanager.ConditionSynced {
		condition.Status, kind, action = metav1.ConditionTrue, corev1.EventTypeNormal, o.reason
	}
	before := meta.FindStatusCondition(b.Status.Conditions, condition.Type)
	if before != nil && before.Status == condition.Status {
		condition.LastTransitionTime = before.LastTransitionTime
	}
	switch {
	case before == nil || *before != condition || b.Status.DefaultCAVersion != o.version:
		if err := r.writeStatus(ctx, b, condition, o.version); err != nil {
			return client.IgnoreNotFound(err)
		}
	case !o.written:
		return nil
	}
	r.Events.Eventf(b, nil, kind, o.reason, action, "%s", eventtext.Fit(condition.Message))
	return nil
}

func (r *reconciler) writeStatus(ctx context.Context, b *trustmanager.Bundle, condition metav1.Condition, version string) error {
	status := map[string]any{"conditions": []any{map[string]any{
		"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason, "message": condition.Message,
		"observedGeneration": condition.ObservedGeneration, "lastTransitionTime": condition.LastTransitionTime.UTC().Format(time.RFC3339),
	}}}
	if version != "" {
		status["defaultCAVersion"] = version
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	applied.SetGroupVersionKind(trustmanager.GroupVersion.WithKind(trustmanager.Kind))
	applied.SetName(b.Name)
	applied.SetUID(b.UID) // not a Bundle that was created meanwhile
	return r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership, fieldManager)
}
