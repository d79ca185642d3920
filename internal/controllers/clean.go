package controllers

import "github.com/certplane/certplane/internal/controller/clean"

// cleanerAccount is the service account of the cleaner.
const cleanerAccount = "csr-cleaner"

func addCleaner(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(cleanerAccount)
	if err != nil {
		return err
	}
	return clean.Add(p.Manager, clean.Config{Client: writer, Settings: cfg.Settings.Cleaning, Events: recorder, Metrics: p.Metrics})
}
