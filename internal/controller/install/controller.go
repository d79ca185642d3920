// Package install keeps ready-made objects in an API.
package install

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

// manager owns the fields of the ready-made objects. Another client that sets a
// field takes it over (server-side apply). This shows which fields were changed
// by hand.
const manager = "certplane-ready-made"

// Config is the configuration of the controller.
type Config struct {
	// Client writes as the controller's own identity.
	Client client.Client
	// Stored is the cache that watches the objects.
	Stored cache.Cache
	// Name is the name of the controller, Kind the kind of the objects.
	Name string
	Kind schema.GroupVersionKind
	// Objects are to exist. Their kind is Kind.
	Objects []*unstructured.Unstructured
	// Whole: an object whose spec a user has changed in any way is not updated.
	// Without it, only fields count that certplane sets too. Lists that are sets
	// need it: applied again, removed values would come back.
	Whole bool
	// Events records the objects that are not updated.
	Events events.EventRecorder
}

// Add registers the controller with mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	var all []reconcile.Request
	for _, object := range cfg.Objects {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	}
	stored := &metav1.PartialObjectMetadata{}
	stored.SetGroupVersionKind(cfg.Kind)
	err := ctrl.NewControllerManagedBy(mgr).
		Named(cfg.Name).
		WatchesRawSource(source.Kind(cfg.Stored, stored, &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{})).
		WatchesRawSource(worker.Once(all...)).
		Complete(&reconciler{cfg})
	if err != nil {
		return fmt.Errorf("building the controller of a ready-made %s: %w", cfg.Kind.Kind, err)
	}
	return nil
}

type reconciler struct{ Config }

// Reconcile makes an object what it is to be, unless a user has changed it.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	for _, object := range r.Objects {
		if object.GetName() != request.Name {
			continue
		}
		err := r.declare(ctx, object)
		if why := needsPeople(err); why != "" {
			klog.FromContext(ctx).Info("Cannot write a ready-made object: it needs the agreement of several people", "kind", r.Kind.Kind, "name", object.GetName(), "why", why)
			r.Events.Eventf(object, nil, corev1.EventTypeWarning, "NeedsPeople", "Apply"+r.Kind.Kind,
				"Cannot install the ready-made %s: %s. Write it by hand with the required people, or remove it from the list of installed objects", r.Kind.Kind, eventtext.Fit(why))
			return reconcile.Result{RequeueAfter: againAfter}, nil
		}
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}

// againAfter is how soon it is tried again to write what needs people: what protects
// it may be gone.
const againAfter = 10 * time.Minute

// needsPeople returns why a write is refused that several people have to make; empty
// if it was not.
func needsPeople(err error) string {
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsForbidden(err) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "spec" {
			return cause.Message
		}
	}
	return ""
}

func (r *reconciler) declare(ctx context.Context, object *unstructured.Unstructured) error {
	applied := object.DeepCopy()
	if r.Whole {
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(object.GroupVersionKind())
		switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), stored); {
		case err == nil && digest(stored) != stored.GetAnnotations()[installed]:
			return r.keep(ctx, object, "spec")
		case client.IgnoreNotFound(err) != nil:
			return err
		}
		applied.SetResourceVersion(stored.GetResourceVersion()) // a user may change it meanwhile
		applied.SetAnnotations(map[string]string{installed: digest(object)})
	}
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(manager))
	if fields := changed(err); fields != "" {
		return r.keep(ctx, object, fields)
	}
	return err
}

// installed is the annotation with the digest of the spec that was installed.
const installed = v1alpha1.GroupName + "/installed"

// digest returns the digest of a spec, empty if it cannot be encoded.
func digest(object *unstructured.Unstructured) string {
	data, err := json.Marshal(object.Object["spec"])
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// keep reports that an object stays as users have changed it.
func (r *reconciler) keep(ctx context.Context, object *unstructured.Unstructured, fields string) error {
	klog.FromContext(ctx).Info("Not updating a ready-made object: another client has changed it", "kind", r.Kind.Kind, "name", object.GetName(), "fields", fields)
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(object.GroupVersionKind())
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), stored); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.Events.Eventf(stored, nil, corev1.EventTypeNormal, "ChangedByHand", "Keep"+r.Kind.Kind,
		"Another client changed %s: the %s is no longer updated. Delete it to get the ready-made one again", fields, r.Kind.Kind)
	return nil
}

// changed lists the fields that other clients have set, if that is why an object
// was not applied.
func changed(err error) string {
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsConflict(err) || status.Status().Details == nil {
		return ""
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			fields = append(fields, strings.TrimPrefix(cause.Field, "."))
		}
	}
	return strings.Join(fields, ", ")
}
