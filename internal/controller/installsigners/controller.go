// Package installsigners keeps the ready-made Signers in an API.
package installsigners

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/worker"
)

// manager owns the fields of the ready-made Signers. Another client that sets a
// field takes it over (server-side apply). This shows which fields were changed
// by hand.
const manager = "certplane-ready-made"

// Config is what the controller is made of.
type Config struct {
	// Client writes as the controller's own identity.
	Client client.Client
	// Stored is the cache that watches Signers.
	Stored cache.Cache
	// Settings says which Signers are to exist.
	Settings Settings
	// Events records the Signers that are not updated.
	Events events.EventRecorder
}

// Add registers the controller with mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	signers, err := cfg.Settings.signers()
	if err != nil {
		return err
	}
	var all []reconcile.Request
	for _, signer := range signers {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(signer)})
	}
	stored := &metav1.PartialObjectMetadata{}
	stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Signer"))
	err = ctrl.NewControllerManagedBy(mgr).
		Named("declare").
		WatchesRawSource(source.Kind(cfg.Stored, stored, &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{})).
		WatchesRawSource(worker.Once(all...)).
		Complete(&reconciler{Config: cfg, signers: signers})
	if err != nil {
		return fmt.Errorf("building the controller of ready-made Signers: %w", err)
	}
	return nil
}

type reconciler struct {
	Config
	signers []*unstructured.Unstructured
}

// Reconcile makes a Signer what it is to be, unless a user has changed it.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	for _, signer := range r.signers {
		if signer.GetName() == request.Name {
			return reconcile.Result{}, r.declare(ctx, signer)
		}
	}
	return reconcile.Result{}, nil
}

func (r *reconciler) declare(ctx context.Context, signer *unstructured.Unstructured) error {
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(signer.DeepCopy()), client.FieldOwner(manager))
	if !apierrors.IsConflict(err) {
		return err
	}
	fields := changed(err)
	klog.FromContext(ctx).Info("Not updating a ready-made Signer: another client has changed it", "signer", signer.GetName(), "fields", fields)
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(signer.GroupVersionKind())
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(signer), stored); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.Events.Eventf(stored, nil, corev1.EventTypeNormal, "ChangedByHand", "KeepSigner",
		"Another client has changed %s: the Signer is not updated any more. Delete it to get the one that certplane brings along", fields)
	return nil
}

// changed lists the fields that other clients have set.
func changed(conflict error) string {
	status, ok := conflict.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return "it"
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, strings.TrimPrefix(cause.Field, "."))
	}
	return strings.Join(fields, ", ")
}
