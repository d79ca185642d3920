package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/controller/installcrds"
	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// definePatience is how long the controllers wait until certplane's own kinds are served.
// Servers that share a store take some seconds, once. Controllers that start earlier look
// for their kinds from time to time.
const definePatience = 15 * time.Second

// newInstaller returns the installer of the definitions of certplane's own kinds.
func newInstaller(writer client.Client, settings policies.Settings) installcrds.Installer {
	names := crds.Names()
	if settings.CertificateRequestPolicies {
		names = append(names, crds.CertificateRequestPolicies)
	}
	return installcrds.Installer{Client: writer, Names: names, Read: crds.Read, Version: buildinfo.Read().Version}
}

// addDefinitions adds the controller that keeps the definitions.
func addDefinitions(a controllermanager.Actor, config controllermanager.Config) error {
	// The cache also holds definitions of other programs, but these are few, and only their
	// metadata is kept.
	stored, err := a.NewCache("definitions", cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	return installcrds.Add(a.Manager, installcrds.Config{Installer: newInstaller(a.Client, config.Settings.Policy), Stored: stored})
}

// ownKinds is which of certplane's own kinds the API does not serve since the start of
// the process. It is safe for concurrent use.
type ownKinds struct {
	missing atomic.Pointer[[]string]
	served  chan struct{} // closed once all are served
}

func newOwnKinds(settings policies.Settings) *ownKinds {
	k := &ownKinds{served: make(chan struct{})}
	names := newInstaller(nil, settings).Names
	k.missing.Store(&names)
	return k
}

// check returns an error that names the kinds that are not served yet. Kinds that
// disappear later are installed again, and do not make the server unready.
func (k *ownKinds) check() error {
	if missing := *k.missing.Load(); len(missing) > 0 {
		return fmt.Errorf("not served yet: %s", strings.Join(missing, ", "))
	}
	return nil
}

// define installs the definitions and waits without a limit until their kinds are served: an
// admission webhook can refuse them, and writes can be slow. The API serves all other kinds
// during that time.
func (p *parts) define(ctx context.Context) error {
	writer, err := client.New(p.installing, client.Options{Mapper: p.controllers.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making the client of %s: %w", rights.InstallCRDs.Account, err)
	}
	installer := newInstaller(writer, p.policies.Settings())
	if installer.Discovery, err = discovery.NewDiscoveryClientForConfig(p.installing); err != nil {
		return fmt.Errorf("making the discovery client of %s: %w", rights.InstallCRDs.Account, err)
	}
	said := worker.Waiting{What: "the definitions of certplane's own kinds"}
	for pause := installPause; ; pause = min(2*pause, worker.LastPause) {
		missing, err := installer.Install(ctx)
		p.kinds.missing.Store(&missing)
		if len(missing) == 0 {
			close(p.kinds.served)
			return nil
		}
		said.Say(ctx, errors.Join(p.kinds.check(), err), pause)
		if !worker.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// installPause is the first wait until it is looked again whether the kinds are served.
const installPause = 20 * time.Millisecond
