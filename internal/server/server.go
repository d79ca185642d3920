// Package server is the composition root of "certplane serve": the one place
// where the whole standalone server is visible.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/datadir"
	"github.com/certplane/certplane/internal/loopback"
)

// startTimeout bounds the start of the store and of the API.
const startTimeout = time.Minute

// Ready tells the user of a server where it is.
type Ready struct {
	// URL is where programs on this host reach the API.
	URL string
	// Kubeconfig is a file with all rights.
	Kubeconfig string
}

// Run runs a standalone server until ctx ends or a part of it fails. It calls
// ready once, when requests are served and the controllers work. Whatever a
// client saw acknowledged is on disk, however the process ends. It is no error
// that ctx ends, not even before the server is ready.
func Run(ctx context.Context, cfg Config, ready func(Ready)) error {
	err := run(ctx, cfg, ready)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func run(ctx context.Context, cfg Config, ready func(Ready)) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	dir := datadir.Dir(cfg.DataDir)
	lock, err := lockDataDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close()

	listener, err := listen(cfg.Serving)
	if err != nil {
		return err
	}
	served := false
	defer func() {
		if !served { // else the API server closes it
			listener.Close()
		}
	}()

	names := servingNames(cfg.Serving, listener)
	credentials, err := openPKI(dir.PKI(), names, time.Now())
	if err != nil {
		return err
	}
	store, err := startStore(ctx, dir, cfg.Etcd)
	if err != nil {
		return err
	}
	defer store.stop()
	if store.backend.EncryptionFile, err = openEncryption(ctx, dir, cfg, store.backend); err != nil {
		return err
	}

	serving := newServingCert(credentials.serving)
	parts, err := assemble(cfg, listener, serving, credentials, store)
	if err != nil {
		return err
	}
	parts.renewal = &renewal{
		dir: dir, names: names, url: parts.url, clock: clock.RealClock{}, credentials: credentials, serving: serving,
	}
	served = true
	return parts.run(ctx, func() error {
		if err := writeKubeconfig(dir.AdminKubeconfig(), parts.url, credentials); err != nil {
			return err
		}
		ready(Ready{URL: parts.url, Kubeconfig: dir.AdminKubeconfig()})
		return nil
	})
}

// parts are what runs, each in its own goroutine, once the store is there.
type parts struct {
	url         string
	store       *store
	api         *apiserver.Server
	controllers ctrl.Manager
	renewal     *renewal
	// installing is how the definitions of our own kinds come into the API.
	installing *rest.Config
}

// assemble builds the parts; none runs yet.
func assemble(cfg Config, listener net.Listener, serving *servingCert, credentials *credentials, store *store) (*parts, error) {
	clientCA, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", credentials.clientCA.trusted)
	if err != nil {
		return nil, fmt.Errorf("using the client CA: %w", err)
	}
	url, inside := localURL(listener), loopback.New()
	ids := newIdentities(&rest.Config{
		Host:      url,
		Transport: inside,
		QPS:       -1, // no client-side limit towards our own server
		// It would cost memory and time, and saves nothing within a host.
		DisableCompression: true,
	}, accounts())
	api, err := apiserver.New(apiserver.Config{
		Listener:          listener,
		ServingCert:       serving,
		ClientCA:          clientCA,
		Loopback:          ids.asServer(),
		Inside:            inside.Serve,
		Tokens:            ids.tokens,
		Storage:           store.backend,
		TLS:               cfg.Serving.TLS,
		API:               cfg.API,
		Admission:         cfg.Admission,
		Audit:             cfg.Audit,
		Tracing:           cfg.Tracing,
		Authentication:    cfg.Authentication,
		ServiceAccountKey: credentials.serviceAccountKey,
		Authorization:     cfg.Authorization,
		DelegatedSigners:  cfg.Signing.Delegated(),
	})
	if err != nil {
		return nil, err
	}
	manager, err := newControllers(ids, credentials, cfg.Settings)
	if err != nil {
		return nil, err
	}
	installing, err := ids.asAccount(definitionAccount)
	if err != nil {
		return nil, err
	}
	return &parts{url: url, store: store, api: api, controllers: manager, installing: installing}, nil
}

// run runs the parts until ctx ends or one fails, and announces when all work.
func (p *parts) run(ctx context.Context, announce func() error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	// The controllers end first: they have last things to write.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	group.Go(func() error { return p.api.Run(serving) })
	group.Go(func() error { return p.renewal.run(ctx) })
	group.Go(func() error {
		defer stopServing()
		if err := waitReady(ctx, p.controllers.GetConfig()); err != nil {
			return err
		}
		if err := p.define(ctx); err != nil {
			return err
		}
		return p.controllers.Start(ctx)
	})
	group.Go(func() error {
		if !p.controllers.GetCache().WaitForCacheSync(ctx) {
			return ctx.Err()
		}
		return announce()
	})
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	select {
	case err := <-ended:
		return err
	case err := <-p.store.failed():
		// No request can be finished without the store: don't wait for any.
		return storeError(err)
	}
}
