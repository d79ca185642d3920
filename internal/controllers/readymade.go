package controllers

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/controller/declare"
)

// readyMadeAccount installs the ready-made Signers.
const readyMadeAccount = "signer-installer"

func addReadyMade(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(readyMadeAccount)
	if err != nil {
		return err
	}
	reader, err := p.As(readyMadeAccount)
	if err != nil {
		return err
	}
	// Names and versions are all it looks at.
	stored, err := cache.New(reader, cache.Options{Scheme: p.Manager.GetScheme(), Mapper: p.Manager.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making the cache of Signers: %w", err)
	}
	if err := p.Manager.Add(stored); err != nil {
		return fmt.Errorf("adding the cache of Signers: %w", err)
	}
	return declare.Add(p.Manager, declare.Config{Client: writer, Stored: stored, Settings: cfg.Settings.PodSigners, Events: recorder})
}
