package controllers

import (
	"github.com/certplane/certplane/internal/controller/publish"
	"github.com/certplane/certplane/internal/roots"
)

func addPublisher(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(publisherAccount)
	if err != nil {
		return err
	}
	configMaps, err := p.CacheOf(publish.Name)
	if err != nil {
		return err
	}
	rootCA, err := cfg.roots()
	if err != nil {
		return err
	}
	return publish.Add(p.Manager, publish.Config{
		Client: writer, ConfigMaps: configMaps, Roots: rootCA, Settings: cfg.Settings.Publishing, Events: recorder, Metrics: p.Metrics,
	})
}

// OpenRoots returns what the certificate of the API server chains to, or nil.
func (c Config) OpenRoots() (roots.Roots, error) {
	if path := c.Settings.Publishing.RootCAFile; path != "" {
		return roots.File(path, nil)
	}
	return c.RootCA, nil
}
