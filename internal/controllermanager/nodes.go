package controllermanager

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/controller/nodelifecycle"
)

// addNodeLifecycle adds the controller with its own cache: no other controller
// reads leases.
func addNodeLifecycle(a Actor, cfg Config) error {
	leases, err := a.NewCache("leases", cache.Options{
		DefaultTransform:  cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{corev1.NamespaceNodeLease: {}},
	})
	if err != nil {
		return err
	}
	return nodelifecycle.Add(a.Manager, nodelifecycle.Config{
		Client: a.Client, Leases: leases, Settings: cfg.Settings.NodeLifecycle, Events: a.Events, Metrics: a.Metrics,
	})
}
