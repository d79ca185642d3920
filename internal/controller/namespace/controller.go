// Package namespace empties namespaces that are being deleted, then releases
// them.
package namespace

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Config is the configuration of the controller. All clients use the controller's own
// identity.
type Config struct {
	// Client writes the status and the finalizers of namespaces.
	Client client.Client
	// Discover returns the namespaced kinds.
	Discover Discover
	// Objects deletes objects of all kinds.
	Objects metadata.Interface
}

// Add registers the controller with mgr, whose cache it reads from.
func Add(mgr ctrl.Manager, cfg Config) error {
	r := &reconciler{
		cache:   mgr.GetCache(),
		client:  cfg.Client,
		emptier: emptier{discover: cfg.Discover, objects: cfg.Objects},
		now:     metav1.Now,
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("namespace").
		For(&corev1.Namespace{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the namespace controller: %w", err)
	}
	return nil
}

type reconciler struct {
	cache   client.Reader
	client  client.Client
	emptier emptier
	now     func() metav1.Time
}

// Reconcile empties one namespace that is being deleted.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var namespace corev1.Namespace
	if err := r.cache.Get(ctx, request.NamespacedName, &namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !waits(&namespace) {
		return reconcile.Result{}, nil
	}
	left := r.emptier.empty(ctx, namespace.Name)
	// Emptying takes a while, in which other clients can change the object.
	if err := r.client.Get(ctx, request.NamespacedName, &namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !waits(&namespace) {
		return reconcile.Result{}, nil
	}
	if err := r.report(ctx, &namespace, left); err != nil {
		return ignoreLate(err)
	}
	if err := left.err(); err != nil {
		return reconcile.Result{}, err
	}
	if len(left.objects) > 0 {
		return reconcile.Result{RequeueAfter: nextLook(&namespace, r.now())}, nil
	}
	return ignoreLate(r.release(ctx, &namespace))
}

// waits reports whether a namespace is being deleted and waits for this
// controller.
func waits(namespace *corev1.Namespace) bool {
	return !namespace.DeletionTimestamp.IsZero() && slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
}

// report writes the remaining content of the namespace into its status.
func (r *reconciler) report(ctx context.Context, namespace *corev1.Namespace, left content) error {
	updated := conditions(namespace.Status.Conditions, left, r.now())
	if equality.Semantic.DeepEqual(updated, namespace.Status.Conditions) {
		return nil
	}
	namespace.Status.Conditions = updated
	if err := r.client.Status().Update(ctx, namespace); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// release removes our finalizer. When the last finalizer is removed, the server
// deletes the namespace.
func (r *reconciler) release(ctx context.Context, namespace *corev1.Namespace) error {
	namespace.Spec.Finalizers = slices.DeleteFunc(namespace.Spec.Finalizers, func(name corev1.FinalizerName) bool {
		return name == corev1.FinalizerKubernetes
	})
	if err := r.client.SubResource("finalize").Update(ctx, namespace); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// ignoreLate drops the errors of writes that came too late: a changed namespace causes a
// watch event, and a deleted one needs no work.
func ignoreLate(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// nextLook returns the time until the next check of a namespace that waits for finalizers
// of other controllers. It grows with the time that the namespace has waited.
func nextLook(namespace *corev1.Namespace, now metav1.Time) time.Duration {
	const soonest, latest = 200 * time.Millisecond, 15 * time.Second
	return min(max(now.Sub(namespace.DeletionTimestamp.Time)/4, soonest), latest)
}
