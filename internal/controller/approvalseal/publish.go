package approvalseal

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
)

// PublishConfig is the configuration of the controller that publishes the public keys.
type PublishConfig struct {
	// Client reads and writes the ConfigMap, and no other object.
	Client client.Client
	// Changes notifies of changes of the ConfigMap. It is a cache made with WatchedKeys.
	Changes cache.Cache
	// Namespace is the namespace of the ConfigMap rights.ApprovalKeys.
	Namespace string
	// Seals holds the keys. The ConfigMap gets the keys with which Seals opens approvals;
	// Seals never reads the ConfigMap.
	Seals *policies.Seals
}

// WatchedKeys restricts a cache to the ConfigMap in a namespace.
func WatchedKeys(namespace string) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Field:      fields.OneTermEqualSelector("metadata.name", rights.ApprovalKeys),
		Namespaces: map[string]cache.Config{namespace: {}},
	}}}
}

// Publish adds the controller that publishes the public keys to mgr. It runs with or
// without the lease: all processes with the same keys write the same content.
func Publish(mgr ctrl.Manager, cfg PublishConfig) error {
	one := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: cfg.Namespace, Name: rights.ApprovalKeys}}
	others := source.Func(func(ctx context.Context, queue worker.Queue) error {
		worker.OnChange(ctx, cfg.Seals.Subscribe, func() { queue.Add(one) })
		return nil
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("approval-keys").
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&corev1.ConfigMap{}), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(others).
		WatchesRawSource(worker.Once(one)).
		WithOptions(worker.InEveryProcess()).
		Complete(&publisher{cfg})
	if err != nil {
		return fmt.Errorf("building the publisher of the keys that verify approvals: %w", err)
	}
	return nil
}

type publisher struct{ PublishConfig }

// Reconcile creates or updates the ConfigMap. It publishes nothing until a key exists.
func (p *publisher) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return worker.Kept(0, p.publish(ctx))
}

func (p *publisher) publish(ctx context.Context) error {
	keys := p.Seals.Keys()
	if len(keys) == 0 {
		return nil
	}
	text, err := policies.EncodeSealKeys(keys)
	if err != nil {
		return err
	}
	err = worker.KeepConfigMap(ctx, p.Client, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: rights.ApprovalKeys, Labels: map[string]string{worker.ManagedByLabel: worker.ManagedBy}},
		Data:       map[string]string{policies.SealKeysField: string(text)},
	}, "certplane-approval-seal")
	if err != nil {
		return fmt.Errorf("publishing the keys that verify approvals: %w", err)
	}
	return nil
}
