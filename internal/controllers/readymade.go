package controllers

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/controller/declare"
)

// addReadyMade adds what installs the ready-made Signers. Names and versions are
// all it looks at.
func addReadyMade(a Actor, cfg Config) error {
	stored, err := a.NewCache("Signers", cache.Options{})
	if err != nil {
		return err
	}
	return declare.Add(a.Manager, declare.Config{Client: a.Client, Stored: stored, Settings: cfg.Settings.PodSigners, Events: a.Events})
}
