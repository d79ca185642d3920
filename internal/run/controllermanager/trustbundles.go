package controllermanager

import (
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/controller/trustbundles"
)

// addTrustBundles adds the controller of TrustBundles.
func addTrustBundles(a Actor, cfg Config) error {
	admitted := func(*v1alpha1.TrustBundle) (bool, error) { return false, nil }
	if cfg.Policies != nil {
		admitted = cfg.Policies.Seals().AdmittedTarget
	}
	return trustbundles.Add(a.Manager, trustbundles.Config{
		API: a.API, Client: a.Client, Versions: a.Versions, Admitted: admitted, ClusterResources: cfg.clusterResources(a.Process),
		Settings: cfg.Settings.TrustBundles, Events: a.Recorder(trustbundles.Component), Clock: clock.RealClock{},
	})
}
