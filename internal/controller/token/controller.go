// Package token fills Secrets of type kubernetes.io/service-account-token with a
// token of the service account that they name, and deletes them with it.
package token

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
)

// Type is the type of Secrets for tokens.
const Type = corev1.SecretTypeServiceAccountToken

// lookEvery is the interval at which the controller checks for changed roots.
const lookEvery = 5 * time.Second

// conflictPause is the wait after another client has written the Secret in
// between.
const conflictPause = 500 * time.Millisecond

// Issue returns a token of a service account for the Secret of this name.
type Issue func(secret types.NamespacedName, account string, uid types.UID) (string, error)

// Config is the configuration of the controller.
type Config struct {
	// Client reads and writes as the controller's own identity, past any cache.
	Client client.Client
	// Secrets needs to hold only the Secrets of Type. Only their metadata is
	// read.
	Secrets cache.Cache
	// Issue makes the tokens.
	Issue Issue
	// Roots are the roots of the API server's certificate.
	Roots roots.Roots
	// Events records Secrets that are deleted or cannot be filled.
	Events events.EventRecorder
}

// Add registers the controller with mgr, in whose cache it watches service
// accounts.
func Add(mgr ctrl.Manager, cfg Config) error {
	r := &reconciler{cfg}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("token").
		WatchesRawSource(source.Kind(cfg.Secrets, metadata("Secret"), &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{})).
		WatchesRawSource(source.Func(r.watchRoots)).
		WatchesMetadata(metadata("ServiceAccount"), handler.EnqueueRequestsFromMapFunc(r.secretsOf)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the token controller: %w", err)
	}
	return nil
}

func metadata(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

type reconciler struct{ Config }

// secretsOf returns the Secrets that name a service account.
func (r *reconciler) secretsOf(ctx context.Context, account client.Object) []reconcile.Request {
	return r.secrets(ctx, account.GetNamespace(), func(secret *metav1.PartialObjectMetadata) bool {
		return secret.Annotations[corev1.ServiceAccountNameKey] == account.GetName()
	})
}

// watchRoots queues all Secrets when the roots have changed.
func (r *reconciler) watchRoots(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go roots.Watch(ctx, r.Roots, lookEvery, func() {
		for _, request := range r.secrets(ctx, metav1.NamespaceAll, func(*metav1.PartialObjectMetadata) bool { return true }) {
			queue.Add(request)
		}
	})
	return nil
}

// secrets returns the matching Secrets in a namespace.
func (r *reconciler) secrets(ctx context.Context, namespace string, match func(*metav1.PartialObjectMetadata) bool) []reconcile.Request {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Secrets.List(ctx, secrets, client.InNamespace(namespace)); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the Secrets for tokens", "namespace", namespace)
		return nil
	}
	return worker.RequestsOf(secrets.Items, match)
}

// Reconcile fills or deletes one Secret.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := r.Client.Get(ctx, request.NamespacedName, secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if secret.Type != Type {
		return reconcile.Result{}, nil
	}
	name := secret.Annotations[corev1.ServiceAccountNameKey]
	account := metadata("ServiceAccount")
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: secret.Namespace, Name: name}, account)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading service account %s/%s: %w", secret.Namespace, name, err)
	}
	ca := pki.EncodeCertificates(r.Roots()...)
	switch decide(secret, account.UID, ca) {
	case remove:
		return r.remove(ctx, secret, name)
	case fill:
		return r.fill(ctx, secret, account, ca)
	case refuse:
		r.Events.Eventf(secret, nil, corev1.EventTypeWarning, "Immutable", "Fill",
			"The Secret is immutable and lacks a token, ca.crt or namespace; delete it and create it without immutable")
	}
	return reconcile.Result{}, nil
}

// remove deletes a Secret as it was seen.
func (r *reconciler) remove(ctx context.Context, secret *corev1.Secret, account string) (reconcile.Result, error) {
	err := r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if err == nil {
		r.Events.Eventf(secret, nil, corev1.EventTypeWarning, "ServiceAccountNotFound", "Delete",
			"Deleted the Secret, because the service account %q that it was made for does not exist", account)
	}
	return retryConflict(client.IgnoreNotFound(err), "deleting", secret)
}

// fill adds what is missing.
func (r *reconciler) fill(ctx context.Context, secret *corev1.Secret, account *metav1.PartialObjectMetadata, ca []byte) (reconcile.Result, error) {
	filled := secret.DeepCopy()
	if filled.Data == nil {
		filled.Data = map[string][]byte{}
	}
	if needsToken(secret) {
		token, err := r.Issue(client.ObjectKeyFromObject(secret), account.Name, account.UID)
		if err != nil {
			return reconcile.Result{}, err
		}
		filled.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	filled.Data[corev1.ServiceAccountRootCAKey] = ca
	filled.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	filled.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	return retryConflict(client.IgnoreNotFound(r.Client.Update(ctx, filled)), "filling", secret)
}

// retryConflict retries, without an error, if another client has written the
// Secret in between.
func retryConflict(err error, doing string, secret *corev1.Secret) (reconcile.Result, error) {
	switch {
	case err == nil:
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	default:
		return reconcile.Result{}, fmt.Errorf("%s Secret %s/%s: %w", doing, secret.Namespace, secret.Name, err)
	}
}
