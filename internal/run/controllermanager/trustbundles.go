package controllermanager

import (
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/controller/trustbundles"
)

// addTrustBundles adds the controller of TrustBundles.
func addTrustBundles(a Actor, cfg Config) error {
	return trustbundles.Add(a.Manager, trustbundles.Config{
		API: a.API, Client: a.Client, Versions: a.Versions, ClusterResources: cfg.clusterResources(a.Process),
		Events: a.Recorder(trustbundles.Component), Clock: clock.RealClock{},
	})
}
