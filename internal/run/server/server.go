// Package server is the composition root of "certplane serve": the one place
// that puts the whole standalone server together.
package server

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/apiserver/advertise"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/store/datadir"
)

// startTimeout bounds one attempt to read or write the store during a start.
const startTimeout = time.Minute

// Ready describes a server that is ready.
type Ready struct {
	// URL is where programs on this host reach the API.
	URL string
	// DataDir is the folder with all that the server keeps.
	DataDir string
	// Kubeconfig is a file with all rights.
	Kubeconfig string
	// ClientCAEnd is the end of the CA that issues for clients and for signers without their
	// own CA. ServingCAEnd is the end of the CA of the server's own certificate.
	ClientCAEnd, ServingCAEnd time.Time
	// Console is the address of the console; empty if there is none.
	Console string
	// Inside is how the parts of this process reach the API, with all rights.
	Inside *rest.Config
}

// Run runs a standalone server until ctx ends or a part of it fails. It calls
// ready once, when requests are served and the controllers work. A write that
// was acknowledged to a client is on disk, however the process ends. The end of
// ctx is not an error, not even before the server is ready.
func Run(ctx context.Context, cfg Config, ready func(Ready)) error {
	err := run(ctx, cfg, ready)
	// etcd returns another error for calls whose deadline has passed.
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, rpctypes.ErrTimeout)) {
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
		if !served { // otherwise the API server closes it
			listener.Close()
		}
	}()

	names := servingNames(cfg.Serving, listener)
	store, err := startStore(ctx, dir, cfg)
	if err != nil {
		return err
	}
	defer store.stop()
	store.backend.Records.Lists.Base = cfg.Revocation.URL
	claim := claim{dir: dir, cfg: cfg, records: store.records(), kv: store.client}
	credentials, err := openKeys(ctx, claim, store, names)
	if err != nil {
		return err
	}
	err = patiently(ctx, "the record of the store", func(ctx context.Context) (err error) {
		cfg.CertManager.ClusterResourceNamespace, err = claim.clusterResources(ctx)
		return err
	})
	if err != nil {
		return err
	}

	lease, err := newLease(cfg, lock)
	if err != nil {
		return err
	}
	serving := newServingCert(credentials.serving)
	acmeListener, acmeCertificate, err := newACMEListener(ctx, cfg, dir.PKI(), credentials, time.Now())
	if err != nil {
		return err
	}
	parts, err := assemble(opened{
		cfg: cfg, listener: listener, serving: serving, credentials: credentials, store: store, lease: lease, acme: acmeListener,
	})
	if err != nil {
		return err
	}
	parts.renewal = &renewal{
		dir: dir, names: names, url: parts.url, clock: clock.RealClock{}, credentials: credentials, serving: serving,
		recordKeys: claim.update, latestCA: claim.latestCA, acme: acmeCertificate,
	}
	served = true
	return parts.run(ctx, func() error {
		if err := writeKubeconfig(dir.AdminKubeconfig(), parts.url, credentials); err != nil {
			return err
		}
		ready(Ready{
			URL: parts.url, DataDir: string(dir), Kubeconfig: dir.AdminKubeconfig(),
			ClientCAEnd:  credentials.clientCA.authority.Validity().NotAfter,
			ServingCAEnd: credentials.servingRoot.Validity().NotAfter,
			Console:      consoleURL(cfg.Console, parts.url),
			Inside:       parts.asServer,
		})
		return nil
	})
}

// openKeys opens the keys of the server and records them in the store.
func openKeys(ctx context.Context, claim claim, store *store, names []string) (*credentials, error) {
	if err := patiently(ctx, "the record of the store", claim.check); err != nil { // before any key is made
		return nil, err
	}
	issuing, err := controllermanager.Issuing(legacyregistry.Registerer(), store.recordOwn)
	if err != nil {
		return nil, err
	}
	// Lists of these CAs are signed as soon as the controllers run.
	lists := store.backend.Records.Lists
	issuing.Status = claim.cfg.Revocation.status(func(ca *x509.Certificate) string { return lists.URL(revocation.ListID(ca)) })
	own := func(signer, use string) pki.Signing { return issuing.For(ctx, pki.Purpose{Signer: signer, Use: use}) }
	credentials, err := openPKI(own, claim.dir.PKI(), names, time.Now())
	if err != nil {
		return nil, err
	}
	credentials.recordOwn, credentials.revoked = store.recordOwn, store.backend.Records.Revoked()
	err = patiently(ctx, "the store", func(ctx context.Context) (err error) {
		if store.backend.EncryptionFile, err = openEncryption(ctx, claim.dir, claim.cfg, store.backend); err != nil {
			return err
		}
		if err := claim.make(ctx, store.backend.EncryptionFile); err != nil {
			return err
		}
		return store.recordHeld(ctx, credentials.held())
	})
	if err != nil {
		return nil, err
	}
	if credentials.clientCA, err = claim.latestCA(ctx, credentials.clientCA); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot exchange the client CA with the other servers of the store")
	}
	return credentials, nil
}

// parts run each in its own goroutine, once the store has started.
type parts struct {
	url         string
	asServer    *rest.Config
	store       *store
	api         *apiserver.Server
	controllers ctrl.Manager
	// newControllers makes new controllers after the former ones have lost their
	// lease.
	newControllers func() (ctrl.Manager, error)
	lease          *controllermanager.Lease
	renewal        *renewal
	advertise      advertise.Keeper
	frontEnds      []frontend.FrontEnd
	policies       *policies.Policies
	// installing is the configuration for installing the definitions of certplane's own
	// kinds.
	installing *rest.Config
	// kinds are those whose definitions it installs.
	kinds *ownKinds
	// readyMade are the names of the Signers that it installs.
	readyMade []string
	// filled is closed once the shared cache of the controllers is filled.
	filled chan struct{}
}

// ownClient is the configuration with which the server's parts reach its API.
func ownClient(url string, inside http.RoundTripper) *rest.Config {
	return &rest.Config{
		Host:      url,
		Transport: inside,
		QPS:       -1, // no client-side limit towards our own server
		// Compression would cost memory and time, and saves nothing within a host.
		DisableCompression: true,
		// Components choose the API versions on purpose; warnings about them are noise.
		WarningHandlerWithContext: rest.NoWarnings{},
	}
}

// run runs the parts until ctx ends or one fails. It calls announce when all
// work.
func (p *parts) run(ctx context.Context, announce func() error) error {
	defer p.policies.Close() // when neither the controllers nor the API decide any more
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	// The controllers end before the API: they still have to write at their end.
	go func() {
		ended <- frontend.Run(ctx, p.frontEnds, func(ctx context.Context) error { return p.runBehind(ctx, announce) })
	}()
	select {
	case err := <-ended:
		return err
	case err := <-p.store.failed():
		// No request can be finished without the store: don't wait for any.
		return storeError(err)
	}
}

// runBehind runs the parts that need the API.
func (p *parts) runBehind(ctx context.Context, announce func() error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.renewal.run(ctx) })
	group.Go(func() error {
		if err := waitReady(ctx, p.asServer, accountInfo(rights.CacheAccount), p.api.Decide); err != nil {
			return err
		}
		group.Go(func() error { return p.define(ctx) })
		select {
		case <-p.kinds.served:
		case <-time.After(definePatience):
		case <-ctx.Done():
			return ctx.Err()
		}
		group.Go(func() error { return p.policies.Run(ctx) })
		defer alongside(ctx, p.advertise.Run)()
		return p.work(ctx)
	})
	group.Go(func() error {
		for _, done := range []<-chan struct{}{p.kinds.served, p.filled} {
			select {
			case <-done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !p.policies.WaitUntilKnown(ctx) {
			return ctx.Err()
		}
		if err := p.waitSigners(ctx); err != nil {
			return err
		}
		return announce()
	})
	return group.Wait()
}

// lockDataDir makes dir and locks it for this process, unless it belongs to
// another user or program. The returned file holds the lock until it is closed
// or the process ends, even by a crash.
func lockDataDir(dir datadir.Dir) (*os.File, error) {
	if err := dir.Prepare(); err != nil {
		return nil, err
	}
	return dir.TakeLock()
}
