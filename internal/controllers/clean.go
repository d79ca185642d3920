package controllers

import (
	"fmt"

	"k8s.io/client-go/discovery"

	"github.com/certplane/certplane/internal/controller/clean"
)

const (
	// cleanerAccount is the service account of the cleaner.
	cleanerAccount = "csr-cleaner"
	// podCleanerAccount is that of the cleaner of PodCertificateRequests; in
	// Kubernetes, its own has the same name.
	podCleanerAccount = "podcertificaterequestcleaner"
)

func addCleaner(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(cleanerAccount)
	if err != nil {
		return err
	}
	return clean.Add(p.Manager, clean.Config{Client: writer, Settings: cfg.Settings.Cleaning, Events: recorder, Metrics: p.Metrics})
}

func addPodCleaner(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(podCleanerAccount)
	if err != nil {
		return err
	}
	api, err := p.As(podCleanerAccount)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return fmt.Errorf("making the client for discovery: %w", err)
	}
	return clean.AddPods(p.Manager, clean.PodConfig{
		API: api, Client: writer, Versions: kinds.ServerResourcesForGroupVersionWithContext,
		Settings: cfg.Settings.Cleaning, Events: recorder, Metrics: p.Metrics,
	})
}
