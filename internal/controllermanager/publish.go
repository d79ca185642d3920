package controllermanager

import (
	"github.com/certplane/certplane/internal/controller/publish"
	"github.com/certplane/certplane/internal/roots"
)

func addPublisher(a Actor, cfg Config) error {
	configMaps, err := a.CacheOf(publish.Name)
	if err != nil {
		return err
	}
	rootCA, err := cfg.roots()
	if err != nil {
		return err
	}
	return publish.Add(a.Manager, publish.Config{
		Client: a.Client, ConfigMaps: configMaps, Roots: rootCA, Settings: cfg.Settings.Publishing, Events: a.Events, Metrics: a.Metrics,
	})
}

// OpenRoots returns the roots of the API server's certificate, or nil.
func (c Config) OpenRoots() (roots.Roots, error) {
	if path := c.Settings.Publishing.RootCAFile; path != "" {
		return roots.File(path, nil)
	}
	return c.RootCA, nil
}
