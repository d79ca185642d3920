package server

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/buildinfo"
	"github.com/certplane/certplane/internal/controller/define"
	"github.com/certplane/certplane/internal/controllers"
	"github.com/certplane/certplane/internal/generated/crds"
)

// definePatience is for how long a start waits until our own kinds are served.
// Servers that share a store take some seconds, once.
const definePatience = 15 * time.Second

// signerDefinition is what the account may read and write.
const signerDefinition = "signers.certplane.dev"

// newInstaller returns what brings in the definitions of our own kinds.
func newInstaller(writer client.Client) (define.Installer, error) {
	definitions, err := crds.All()
	return define.Installer{Client: writer, Definitions: definitions, Version: buildinfo.Read().Version}, err
}

// addDefinitions adds the controller that keeps the definitions.
func addDefinitions(process controllers.Process) error {
	writer, err := process.Client(definitionAccount)
	if err != nil {
		return err
	}
	installer, err := newInstaller(writer)
	if err != nil {
		return err
	}
	cfg, err := process.As(definitionAccount)
	if err != nil {
		return err
	}
	stored, err := cache.New(cfg, cache.Options{
		Scheme: process.Manager.GetScheme(), Mapper: process.Manager.GetRESTMapper(),
		// The account may not read others' definitions.
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", signerDefinition),
	})
	if err != nil {
		return fmt.Errorf("making the cache of definitions: %w", err)
	}
	if err := process.Manager.Add(stored); err != nil {
		return fmt.Errorf("adding the cache of definitions: %w", err)
	}
	return define.Add(process.Manager, define.Config{Installer: installer, Stored: stored})
}

// define brings in the definitions before controllers look for their kinds. A
// server without them still does its other work, and the controller that keeps
// them tries again.
func (p *parts) define(ctx context.Context) error {
	writer, err := client.New(p.installing, client.Options{Mapper: p.controllers.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making the client of %s: %w", definitionAccount, err)
	}
	installer, err := newInstaller(writer)
	if err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, definePatience)
	defer cancel()
	if err := installer.Install(patient); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot install the definitions of certplane's own kinds yet")
	}
	return ctx.Err()
}
