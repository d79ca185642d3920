package frontend

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver"
	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
	"github.com/certplane/certplane/internal/acme/acmeserver/peers"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
)

// servedPause is the time between two looks at whether the API serves the kinds of the
// ACME server.
const servedPause = 100 * time.Millisecond

// openACME returns the ACME server, which reads and writes the API as its own
// account. It answers when its caches are filled.
func openACME(p Process, cfg Config) (FrontEnd, error) {
	if cfg.ACME == nil {
		return FrontEnd{}, nil
	}
	api, err := p.As(rights.ACMEServerAccount)
	if err != nil {
		return FrontEnd{}, err
	}
	api = rest.CopyConfig(api)
	api.WarningHandler = rest.NoWarnings{}
	transport, err := rest.HTTPClientFor(api)
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making its client: %w", err)
	}
	mapper, err := p.Mapper(api, transport)
	if err != nil {
		return FrontEnd{}, fmt.Errorf("looking up its kinds: %w", err)
	}
	objects, err := inprocess.NewClient(api, client.Options{Scheme: p.Scheme, Mapper: mapper})
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making its client: %w", err)
	}
	kinds := map[client.Object]cache.ByObject{&v1alpha1.AcmeOrder{}: {Transform: acmeserver.TransformOrder}}
	if p.Several {
		kinds[&coordinationv1.Lease{}] = peers.Cached(leaseOf(p))
	}
	stored, err := inprocess.NewCache(api, cache.Options{Scheme: p.Scheme, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields(), ByObject: kinds})
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making its cache: %w", err)
	}
	recorder, stopEvents, err := openACMEEvents(api, p.Scheme, "certplane.dev/"+rights.ACMEServerAccount)
	if err != nil {
		return FrontEnd{}, err
	}
	var others *peers.Peers
	server, err := acmeserver.New(context.Background(), acmeserver.Config{
		ExternalURL: cfg.ACME.ExternalURL(), FormerURLs: cfg.ACME.FormerURLs(),
		Client: objects, Cache: stored, Requester: "system:serviceaccount:" + p.Namespace + ":" + rights.ServeACMEOrders.Account,
		RefusedByPolicy: cfg.ACMEPolicies.RefuseOrder,
		Signer:          policies.ACMESigners(stored, objects, cfg.ACMEIssuers, p.Now),
		Roots:           func() []byte { return cfg.ACME.Trust().PEM() },
		Address:         func(r *http.Request) (netip.Addr, bool) { return listener.ClientAddress(r.Context()) },
		RedeemElsewhere: func(ctx context.Context, process nonce.Instance, text string) bool {
			return others != nil && others.Redeem(ctx, process, text)
		},
		Attempts: cfg.ACMEAttempts, Sole: !p.Several, Lend: inprocess.Lender(objects), Events: recorder, Metrics: p.Metrics, Now: p.Now,
	})
	if err != nil {
		return FrontEnd{}, err
	}
	cfg.ACME.Handler = server
	if p.Several {
		if others, err = findPeers(p, cfg.ACME, server, objects, stored); err != nil {
			return FrontEnd{}, err
		}
	}
	serve := func(ctx context.Context) error {
		defer stopEvents()
		if err := untilServed(ctx, objects); err != nil {
			return nil // it has ended before
		}
		return serveACME(ctx, stored, server, others, cfg.ACME)
	}
	return FrontEnd{Serve: serve, Ready: cfg.ACME.Ready}, nil
}

func leaseOf(p Process) client.ObjectKey {
	return client.ObjectKey{Namespace: p.Namespace, Name: rights.ACMEPeers}
}

// findPeers connects this process and the other processes of the server with each other. A
// process that the others cannot reach still serves clients.
func findPeers(p Process, at *listener.Server, server *acmeserver.Server, objects client.Client, stored cache.Cache) (*peers.Peers, error) {
	address, err := at.PeerAddress()
	if err != nil {
		klog.Background().Error(err, "Clients that reach several processes of the ACME server have to repeat requests")
		return nil, nil
	}
	others, err := peers.New(context.Background(), peers.Config{
		Instance: server.Instance(), Address: address, Lease: leaseOf(p), Client: objects, Cache: stored, Redeem: server.Redeem, Now: p.Now,
	})
	if err != nil {
		return nil, err
	}
	at.Peers = others
	return others, nil
}

// serveACME answers clients as soon as the caches are filled. These are needed until
// the last request is finished.
func serveACME(ctx context.Context, stored cache.Cache, server *acmeserver.Server, others *peers.Peers, at *listener.Server) error {
	caching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return stored.Start(caching) })
	group.Go(func() error {
		defer stop()
		if !stored.WaitForCacheSync(ctx) {
			return nil
		}
		defer context.AfterFunc(ctx, server.Drain)()
		if others != nil {
			group.Go(func() error { others.Run(ctx); return nil })
		}
		return at.Serve(ctx)
	})
	return group.Wait()
}

// untilServed waits until the API serves the kinds of the ACME server and lets it read
// them: in "certplane serve", that is after the first front ends have started.
func untilServed(ctx context.Context, objects client.Client) error {
	served := func(ctx context.Context) (bool, error) {
		for _, list := range []client.ObjectList{&v1alpha1.AcmeEndpointList{}, &v1alpha1.AcmeExternalKeyList{}, &v1alpha1.AcmeAccountList{}, &v1alpha1.AcmeOrderList{}, &v1alpha1.SignerList{}} {
			if objects.List(ctx, list, client.Limit(1)) != nil {
				return false, nil
			}
		}
		return true, nil
	}
	return wait.PollUntilContextCancel(ctx, servedPause, true, served)
}
