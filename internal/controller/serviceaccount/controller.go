// Package serviceaccount creates the service account "default" in each
// namespace.
package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/process/worker"
)

// Name is the name of the accounts.
const Name = "default"

// Config is the configuration of the controller.
type Config struct {
	// Client creates accounts as the controller's own identity.
	Client client.Client
	// Accounts needs to hold only the accounts called Name. Only their metadata
	// is read.
	Accounts cache.Cache
}

// Add registers the controller with mgr, whose cache it reads namespaces from.
func Add(mgr ctrl.Manager, cfg Config) error {
	r := &reconciler{namespaces: mgr.GetCache(), accounts: cfg.Accounts, client: cfg.Client}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("serviceaccount").
		For(&corev1.Namespace{}).
		WatchesRawSource(source.Kind(cfg.Accounts, metadata(), handler.TypedEnqueueRequestsFromMapFunc(itsNamespace))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the service account controller: %w", err)
	}
	return nil
}

func metadata() *metav1.PartialObjectMetadata {
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	return account
}

func itsNamespace(_ context.Context, account *metav1.PartialObjectMetadata) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: account.Namespace}}}
}

type reconciler struct {
	namespaces, accounts client.Reader
	client               client.Writer
}

// Reconcile creates the account of one namespace, if it is missing.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var namespace corev1.Namespace
	if err := r.namespaces.Get(ctx, request.NamespacedName, &namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	err := r.accounts.Get(ctx, types.NamespacedName{Namespace: namespace.Name, Name: Name}, metadata())
	if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: Name}}
	return reconcile.Result{}, ignoreLate(r.client.Create(ctx, account))
}

// ignoreLate drops the errors of a write that came too late: another client has
// created the account, or deleted the namespace.
func ignoreLate(err error) error {
	if apierrors.IsAlreadyExists(err) || worker.IsTooLate(err) {
		return nil
	}
	return err
}
