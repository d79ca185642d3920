// Package frontproxy lets other API servers authenticate requests that this API server
// forwards. It publishes the CA of the server's client certificate, keeps that certificate
// valid, and publishes the CAs of users' client certificates.
//
// An extension API server that delegates authentication, such as a DNS webhook of
// cert-manager, reads the ConfigMap kube-system/extension-apiserver-authentication. If a
// client presents a certificate of the published CA with a published name, the extension
// API server trusts the headers in which the client names a user.
//
// All servers of a store share the CA, which is in a Secret. The certificate is only in
// memory: each process that holds the lease issues its own.
package frontproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// The objects of the controller. The namespace and the name of the ConfigMap are the same
// as in Kubernetes.
const (
	Namespace     = metav1.NamespaceSystem
	ConfigMapName = "extension-apiserver-authentication"
	SecretName    = "certplane-front-proxy-ca"
)

// lookAtRoots is the interval at which the controller checks for changed CAs of users'
// certificates.
const lookAtRoots = 5 * time.Second

// Client holds the client certificate of the front proxy. It is safe for concurrent use.
type Client struct {
	current atomic.Pointer[tls.Certificate]
}

// Certificate returns the certificate to present now. It returns an error if the
// certificate does not exist yet.
func (c *Client) Certificate() (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return current, nil
	}
	return nil, errors.New("the server's certificate for other API servers does not exist yet")
}

// Config is the configuration of the controller.
type Config struct {
	// Client reads and writes the objects, and no others.
	Client client.Client
	// Changes notifies of their changes: it is a cache with Watched.
	Changes cache.Cache
	// ClientCAs are the CAs of client certificates with which users authenticate to the
	// API.
	ClientCAs roots.Roots
	// Issuing configures the signatures of the certificate and its CA.
	Issuing pki.Issuing
	// Revoked are the known revocations: a revoked certificate is replaced at once.
	Revoked *revocation.Index
	// Use gets the certificate.
	Use *Client
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
}

// Watched restricts a cache to the objects.
func Watched() cache.Options {
	named := func(name string) cache.ByObject {
		return cache.ByObject{
			Field: fields.OneTermEqualSelector("metadata.name", name), Namespaces: map[string]cache.Config{Namespace: {}},
		}
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: named(ConfigMapName),
		&corev1.Secret{}:    named(SecretName),
	}}
}

// Add adds the controller to mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	// Each change causes a check of everything.
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	r := newReconciler(cfg)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("front-proxy").
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&corev1.ConfigMap{}), all)).
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&corev1.Secret{}), all)).
		WatchesRawSource(source.Func(r.watchRoots)).
		WatchesRawSource(source.Func(r.watchRevocations)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the front proxy certificate controller: %w", err)
	}
	return nil
}

// watchRoots queues a check when the process starts, as the watches do not report
// objects that do not exist, and when the CAs of users have changed.
func (r *reconciler) watchRoots(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(reconcile.Request{})
	go roots.Watch(ctx, r.ClientCAs, lookAtRoots, func() { queue.Add(reconcile.Request{}) })
	return nil
}

// watchRevocations queues a check when the certificate is revoked.
func (r *reconciler) watchRevocations(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go r.Revoked.Follow(ctx, func() {
		if current := r.Use.current.Load(); current != nil && r.isRevoked(current.Leaf) {
			queue.Add(reconcile.Request{})
		}
	})
	return nil
}

func newReconciler(cfg Config) *reconciler {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &reconciler{Config: cfg}
}
