// Package webhookcert keeps the serving certificate of the admission webhook, and
// writes its CA into the configurations from which the API server learns which
// CA to trust.
//
// It works in every serving process, with or without the lease: each write
// succeeds only if the object has not changed since it was read, so it does not
// matter which process is first.
package webhookcert

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
)

// Config is the configuration of the controller.
type Config struct {
	// Name is the name of the controller, for a process that has several.
	Name string
	// Client reads and writes the objects below, and no others.
	Client client.Client
	// Changes notifies of their changes: it is a cache with Watched.
	Changes cache.Cache
	// Objects are the webhook's objects in the API.
	Objects Objects
	// Issuing configures the signatures of the certificate and its CA.
	Issuing pki.Issuing
	// Calls, if not nil, returns the rules and the conditions of webhooks that change, by
	// their names; nil while they are not known. The functions that Subscribe registers are
	// called when they change.
	Calls     func() map[string]Calls
	Subscribe func(changed func(struct{})) (cancel func())
	// CALifetime is the lifetime of the CA; zero means a year.
	CALifetime time.Duration
	// Use is called with the certificate to serve from now on.
	Use func(*tls.Certificate)
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
}

// Calls are the requests for which a webhook is called.
type Calls struct {
	// Rules have all fields that the API gives a default.
	Rules []admissionregistrationv1.RuleWithOperations
	// Condition is the expression of the one match condition.
	Condition string
}

// Objects names a webhook's objects in the API.
type Objects struct {
	// Namespace and Secret are where the certificate is kept, with its CA.
	Namespace, Secret string
	// Service is the Service in the namespace through which the webhook is
	// reached, and Hosts are further names and addresses of the certificate.
	Service string
	Hosts   []string
	// Configuration is the name of the ValidatingWebhookConfiguration and of the
	// MutatingWebhookConfiguration. It is empty for a webhook that has none: its clients
	// get the CA in another way.
	Configuration string
}

func (o Objects) secret() client.ObjectKey {
	return client.ObjectKey{Namespace: o.Namespace, Name: o.Secret}
}

// Watched restricts a cache to the objects.
func (o Objects) Watched() cache.Options {
	if o.Configuration == "" {
		return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: worker.OneSecret(o.secret())}}
	}
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}: worker.OneSecret(o.secret()),
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(o.Configuration),
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(o.Configuration),
	}}
}

// Add adds the controller to mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	// Each change causes a check of everything.
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	builder := ctrl.NewControllerManagedBy(mgr).
		Named(cmp.Or(cfg.Name, "webhook-certificate")).
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&corev1.Secret{}), all))
	if cfg.Objects.Configuration != "" {
		builder = builder.
			WatchesRawSource(source.Kind(cfg.Changes, client.Object(&admissionregistrationv1.ValidatingWebhookConfiguration{}), all)).
			WatchesRawSource(source.Kind(cfg.Changes, client.Object(&admissionregistrationv1.MutatingWebhookConfiguration{}), all))
	}
	err := builder.
		WatchesRawSource(worker.Once(reconcile.Request{})).
		WatchesRawSource(source.Func(func(ctx context.Context, queue worker.Queue) error {
			if cfg.Subscribe != nil {
				worker.OnChange(ctx, cfg.Subscribe, func() { queue.Add(reconcile.Request{}) })
			}
			return nil
		})).
		WithOptions(worker.InEveryProcess()).
		Complete(newReconciler(cfg))
	if err != nil {
		return fmt.Errorf("building the webhook certificate controller: %w", err)
	}
	return nil
}

func newReconciler(cfg Config) *reconciler {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &reconciler{Config: cfg}
}
