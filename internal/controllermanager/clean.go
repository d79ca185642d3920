package controllermanager

import "github.com/certplane/certplane/internal/controller/clean"

func addCleaner(a Actor, cfg Config) error {
	return clean.Add(a.Manager, clean.Config{Client: a.Client, Settings: cfg.Settings.Cleaning, Events: a.Events, Metrics: a.Metrics})
}

func addPodCleaner(a Actor, cfg Config) error {
	return clean.AddPods(a.Manager, clean.PodConfig{
		API: a.API, Client: a.Client, Versions: a.Versions, Settings: cfg.Settings.Cleaning, Events: a.Events, Metrics: a.Metrics,
	})
}
