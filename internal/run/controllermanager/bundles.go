package controllermanager

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/controller/bundles"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/process/changewatch"
)

// trustNamespace returns the namespace of the sources of Bundles.
func (c Config) trustNamespace(p Process) string {
	if c.InCluster {
		return cmp.Or(c.Settings.TrustManager.TrustNamespace, p.Namespace)
	}
	return cmp.Or(c.Settings.TrustManager.TrustNamespace, c.clusterResources(p))
}

// addBundles adds the controller that writes the targets of Bundles.
func addBundles(a Actor, cfg Config) error {
	namespace := cfg.trustNamespace(a.Process)
	configMaps, err := changewatch.New(a.API, corev1.SchemeGroupVersion.WithResource("configmaps"), namespace)
	if err != nil {
		return err
	}
	secrets, err := changewatch.New(a.API, changewatch.Secrets, namespace)
	if err != nil {
		return err
	}
	defaults, err := roots.OpenPackage(cfg.Settings.TrustManager.DefaultPackage)
	if err != nil {
		return err
	}
	return bundles.Add(a.Manager, bundles.Config{
		API: a.API, Client: a.Client, Namespaces: a.Manager.GetCache(), Versions: a.Versions,
		TrustNamespace: namespace, ConfigMaps: configMaps, Secrets: secrets, Package: defaults,
		Settings: cfg.Settings.TrustManager, Events: a.Recorder(bundles.Component), Clock: clock.RealClock{},
	})
}
