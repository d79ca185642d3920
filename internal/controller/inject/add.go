// Package inject keeps the serving certificate of the admission webhook, and
// writes its CA to where the API looks for whom to trust.
//
// It works in every process that serves, with or without the lease: each write
// holds only if nobody has written since, so it does not matter who is first.
package inject

import (
	"context"
	"crypto/tls"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Config is what is needed to run.
type Config struct {
	// Client reads and writes the objects below, and no others.
	Client client.Client
	// Changes tells of their changes: a cache with Watched.
	Changes cache.Cache
	// Objects are what the webhook consists of in the API.
	Objects Objects
	// Use gets what is to be served from now on.
	Use func(*tls.Certificate)
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
}

// Objects names what a webhook consists of in the API.
type Objects struct {
	// Namespace and Secret are where the certificate is kept, with its CA.
	Namespace, Secret string
	// Service is the service in the namespace through which it is reached.
	Service string
	// Configuration is the name of the ValidatingWebhookConfiguration and of the
	// MutatingWebhookConfiguration.
	Configuration string
}

// Watched restricts a cache to the objects.
func (o Objects) Watched() cache.Options {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	secret := named(o.Secret)
	secret.Namespaces = map[string]cache.Config{o.Namespace: {}}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}: secret,
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(o.Configuration),
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(o.Configuration),
	}}
}

// Add adds the controller to mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	// Whatever has changed, all is looked at.
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("webhook-certificate").
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&corev1.Secret{}), all)).
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&admissionregistrationv1.ValidatingWebhookConfiguration{}), all)).
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&admissionregistrationv1.MutatingWebhookConfiguration{}), all)).
		WatchesRawSource(source.Func(once)).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true), NeedLeaderElection: ptr.To(false), RateLimiter: retries()}).
		Complete(newReconciler(cfg))
	if err != nil {
		return fmt.Errorf("building what keeps the webhook's certificate: %w", err)
	}
	return nil
}

// retries says when to try again what has failed. While there is no certificate,
// nobody can write what the webhook guards: once the cause is fixed, such as a
// right that was missing, that must not last.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

// once has it looked at when the process starts: of what is not there, no watch
// tells.
func once(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(reconcile.Request{})
	return nil
}

func newReconciler(cfg Config) *reconciler {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &reconciler{cfg}
}
