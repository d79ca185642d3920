package server

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/buildinfo"
	"github.com/certplane/certplane/internal/controller/installcrds"
	"github.com/certplane/certplane/internal/controllermanager"
	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
)

// definePatience is how long a start waits until our own kinds are served.
// Servers that share a store take some seconds, once.
const definePatience = 15 * time.Second

// newInstaller returns what installs the definitions of our own kinds.
func newInstaller(writer client.Client, settings policies.Settings) installcrds.Installer {
	names := crds.Names()
	if settings.CertificateRequestPolicies {
		names = append(names, crds.CertificateRequestPolicies)
	}
	return installcrds.Installer{Client: writer, Names: names, Read: crds.Read, Version: buildinfo.Read().Version}
}

// addDefinitions adds the controller that keeps the definitions.
func addDefinitions(a controllermanager.Actor, config controllermanager.Config) error {
	// It caches others' definitions too, but these are few and only metadata is
	// kept.
	stored, err := a.NewCache("definitions", cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	return installcrds.Add(a.Manager, installcrds.Config{Installer: newInstaller(a.Client, config.Settings.Policy), Stored: stored})
}

// define installs the definitions before controllers look for their kinds. A
// server without them still does its other work, and the controller that keeps
// them tries again.
func (p *parts) define(ctx context.Context) error {
	writer, err := client.New(p.installing, client.Options{Mapper: p.controllers.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making the client of %s: %w", rights.InstallCRDs.Account, err)
	}
	patient, cancel := context.WithTimeout(ctx, definePatience)
	defer cancel()
	installer := newInstaller(writer, p.policies.Settings())
	if installer.Discovery, err = discovery.NewDiscoveryClientForConfig(p.installing); err != nil {
		return fmt.Errorf("making the discovery client of %s: %w", rights.InstallCRDs.Account, err)
	}
	if err := installer.Install(patient); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot install the definitions of certplane's own kinds yet")
	}
	return ctx.Err()
}
