package controllermanager

import (
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/controller/cainject"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/process/changewatch"
)

// addCAInjector adds the controller that writes CAs into webhook configurations and other
// objects. It watches its sources without caching them.
func addCAInjector(a Actor, cfg Config) error {
	settings := cfg.Settings.CAInjector
	secrets, err := changewatch.New(a.API, changewatch.Secrets, settings.Namespace)
	if err != nil {
		return err
	}
	certificates, err := changewatch.New(a.API, cmv1.SchemeGroupVersion.WithResource("certificates"), settings.Namespace)
	if err != nil {
		return err
	}
	apiCAs, err := roots.OfAPI(a.API)
	if err != nil {
		return err
	}
	if apiCAs == nil { // the API is in this process, or the host's roots verify it
		apiCAs = cfg.RootCA
	}
	return cainject.Add(a.Manager, cainject.Config{
		API: a.API, Client: a.Client, Versions: a.Versions, Secrets: secrets, Certificates: certificates, APICAs: apiCAs,
		Settings: settings, Events: a.Recorder(cainject.Component), Clock: clock.RealClock{},
	})
}
