// Package cluster is the composition root of "certplane controllers": the
// certificate controllers for any Kubernetes API.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/buildinfo"
	"github.com/certplane/certplane/internal/controllers"
	"github.com/certplane/certplane/internal/rights"
)

// Run runs the chosen controllers until ctx ends or they cannot go on. It is
// no error that ctx ends. The process must end when Run returns: a controller
// that does not stop in time may still be at work, without the lease.
func Run(ctx context.Context, cfg Config) error {
	err := run(ctx, cfg)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	own, err := connect(cfg.ClientConnection)
	if err != nil {
		return err
	}
	work, err := plan(cfg, own)
	if err != nil {
		return err
	}
	if err := waitForAPI(ctx, own); err != nil {
		return err
	}
	as, err := identities(ctx, cfg, own)
	if err != nil {
		return err
	}
	reader, err := as(rights.CacheAccount)
	if err != nil {
		return err
	}
	manager, err := newManager(cfg, own, reader)
	if err != nil {
		return err
	}
	process := controllers.Process{Manager: manager, Reader: reader, Namespace: cfg.Namespace, As: as, Metrics: registry()}
	if err := controllers.Add(process, work); err != nil {
		return err
	}
	if cfg.ServesWebhook() {
		if err := addWebhook(manager, cfg, as); err != nil {
			return err
		}
	}
	klog.InfoS("Starting the certificate controllers", "version", buildinfo.Read().Version, "api", own.Host, "controllers", work.Settings.Controllers)
	return start(ctx, cfg, manager)
}

// start runs the manager; it explains the one error that is no failure of
// anything but needs an answer.
func start(ctx context.Context, cfg Config, mgr ctrl.Manager) error {
	err := mgr.Add(manager.RunnableFunc(func(context.Context) error {
		klog.InfoS("The controllers work here from now on", "lease", cfg.LeaseNamespace()+"/"+cfg.LeaderElection.ResourceName)
		return nil
	}))
	if err != nil {
		return err
	}
	err = mgr.Start(ctx)
	if controllers.IsLostLease(err) {
		return fmt.Errorf("the lease %s/%s is lost, so another process may be at work: start this one again",
			cfg.LeaseNamespace(), cfg.LeaderElection.ResourceName)
	}
	return err
}

// plan is what the controllers do.
func plan(cfg Config, own *rest.Config) (controllers.Config, error) {
	work := cfg.work()
	var err error
	if work.RootCA, err = rootCA(own); err != nil {
		return work, err
	}
	switch {
	case work.Chooses(rights.Publish) && work.RootCA == nil && cfg.Publishing.RootCAFile == "":
		return work, fmt.Errorf("controllers: %s has nothing to publish: set publishing.rootCAFile to the CA of the API server's certificate", rights.Publish.Name)
	case cfg.LacksCA():
		if slices.Contains(cfg.Controllers, rights.Sign.Name) {
			return work, fmt.Errorf("controllers: %s is asked for by name, but no CA is configured: set signing.ca, or --cluster-signing-cert-file "+
				"and --cluster-signing-key-file", rights.Sign.Name)
		}
		klog.InfoS("The sign controller is off: no CA is configured for any signer. Set signing.ca, or --cluster-signing-cert-file and --cluster-signing-key-file")
	}
	return work, nil
}
