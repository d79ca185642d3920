// Package approvalseal maintains the key with which the processes of a cluster seal
// approvals by people, and publishes the keys that verify the seals. The key is in a Secret
// that the first process creates.
//
// The controller runs in every process, with or without the lease: creating the Secret
// succeeds only once.
package approvalseal

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/process/worker"
)

// Keys in the Secret.
const (
	// KeyField holds the private key that seals, in PEM.
	KeyField = "seal.key"
	// FormerField holds the public keys of former seal keys, in PEM. It is optional:
	// administrators add it when they replace the key.
	FormerField = "former.pem"
)

// Config is the configuration of the controller.
type Config struct {
	// Client reads and creates the Secret.
	Client client.Client
	// Changes notifies of changes of the Secret. It is a cache made with Watched.
	Changes cache.Cache
	// Secret is the Secret for the key.
	Secret client.ObjectKey
	// Rand is the source of randomness for a new key.
	Rand io.Reader
	// Seals gets the key.
	Seals *policies.Seals
}

// Watched restricts a cache to the Secret.
func Watched(secret client.ObjectKey) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: worker.OneSecret(secret)}}
}

// Add adds the controller to mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("approval-seal").
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&corev1.Secret{}), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(worker.Once(reconcile.Request{NamespacedName: cfg.Secret})).
		WithOptions(worker.InEveryProcess()).
		Complete(&reconciler{cfg})
	if err != nil {
		return fmt.Errorf("building the controller of the key that seals approvals: %w", err)
	}
	return nil
}

type reconciler struct{ Config }

// Reconcile loads the key from the Secret into Seals. It does not replace an invalid
// Secret: a new key would void the approvals by people.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return worker.Kept(0, r.keep(ctx))
}

func (r *reconciler) keep(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, r.Secret, secret)
	if apierrors.IsNotFound(err) {
		secret, err = r.create(ctx)
	}
	if err != nil {
		return fmt.Errorf("keeping the key that seals approvals: %w", err)
	}
	if err := r.use(secret.Data); err != nil {
		return fmt.Errorf("the Secret %s does not contain a key that seals approvals; delete it to generate a new key, "+
			"which voids the approvals of requests that need more people: %w", r.Secret, err)
	}
	return nil
}

func (r *reconciler) create(ctx context.Context) (*corev1.Secret, error) {
	_, key, err := ed25519.GenerateKey(r.Rand)
	if err != nil {
		return nil, err
	}
	text, err := pki.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Secret.Namespace, Name: r.Secret.Name, Labels: map[string]string{worker.ManagedByLabel: worker.ManagedBy},
		},
		Data: map[string][]byte{KeyField: text},
	}
	if err := r.Client.Create(ctx, secret); err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("Generated the key that seals approvals", "secret", r.Secret)
	return secret, nil
}

func (r *reconciler) use(data map[string][]byte) error {
	key, err := pki.ParsePrivateKey(data[KeyField])
	if err != nil {
		return fmt.Errorf("%s: %w", KeyField, err)
	}
	former, err := policies.ParseSealKeys(data[FormerField])
	if err != nil {
		return fmt.Errorf("%s: %w", FormerField, err)
	}
	return r.Seals.Use(key, former...)
}
