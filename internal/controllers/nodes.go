package controllers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/controller/nodelifecycle"
)

// nodeAccount is the service account of the node lifecycle controller; in
// Kubernetes, its own has the same name.
const nodeAccount = "node-controller"

// addNodeLifecycle adds the controller with a cache of its own: nobody else
// reads leases.
func addNodeLifecycle(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(nodeAccount)
	if err != nil {
		return err
	}
	api, err := p.As(nodeAccount)
	if err != nil {
		return err
	}
	leases, err := cache.New(api, cache.Options{
		Scheme: p.Manager.GetScheme(), Mapper: p.Manager.GetRESTMapper(),
		DefaultTransform:  cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{corev1.NamespaceNodeLease: {}},
	})
	if err != nil {
		return fmt.Errorf("making the cache of leases: %w", err)
	}
	if err := p.Manager.Add(leases); err != nil {
		return fmt.Errorf("adding the cache of leases: %w", err)
	}
	return nodelifecycle.Add(p.Manager, nodelifecycle.Config{
		Client: writer, Leases: leases, Settings: cfg.Settings.NodeLifecycle, Events: recorder, Metrics: p.Metrics,
	})
}
