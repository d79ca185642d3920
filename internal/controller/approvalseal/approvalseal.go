// Package approvalseal keeps the key with which the processes of a cluster seal
// the approvals of people, and publishes the keys that verify them. The key is in a
// Secret, which the first process creates.
//
// It works in every process, with or without the lease: creating the Secret
// succeeds once.
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
	"github.com/certplane/certplane/internal/worker"
)

// The fields of the Secret.
const (
	// KeyField has the key that seals, in PEM.
	KeyField = "seal.key"
	// FormerField has the public keys, in PEM, of keys that sealed before. It is
	// optional: whoever replaces the key writes it.
	FormerField = "former.pem"
)

// Config is what is needed to run.
type Config struct {
	// Client reads and creates the Secret.
	Client client.Client
	// Changes notifies of its changes: it is a cache with Watched.
	Changes cache.Cache
	// Secret is where the key is kept.
	Secret client.ObjectKey
	// Rand is the source of a new key.
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
		return fmt.Errorf("building what keeps the key that seals approvals: %w", err)
	}
	return nil
}

type reconciler struct{ Config }

// Reconcile has the process use the key in the Secret. A Secret that cannot be
// read stays as it is: a new key would void the approvals of people.
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
		return fmt.Errorf("the Secret %s is not one with a key that seals approvals; delete it, and a new one is made, "+
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
	log.FromContext(ctx).Info("Made the key that seals approvals", "secret", r.Secret)
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
