package controllermanager

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/controller/installsigners"
)

// addReadyMade adds the controller that installs the ready-made Signers. It
// looks only at names and versions.
func addReadyMade(a Actor, cfg Config) error {
	stored, err := a.NewCache("Signers", cache.Options{})
	if err != nil {
		return err
	}
	return installsigners.Add(a.Manager, installsigners.Config{Client: a.Client, Stored: stored, Settings: cfg.Settings.PodSigners, Events: a.Events})
}
