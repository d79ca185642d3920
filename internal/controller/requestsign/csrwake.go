package requestsign

import (
	"context"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/worker"
)

type csr = certificatesv1.CertificateSigningRequest

// Subscribe makes changed be called when an issuer or an object that it needs
// has changed. The argument of changed reports whether a request may have
// waited for it.
func (c *CSRs) Subscribe(changed func(waited func(*csr) bool)) (cancel func()) {
	return c.changes.Subscribe(changed)
}

// Start follows issuers and the objects that they need until ctx ends. It
// implements manager.Runnable.
func (c *CSRs) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName(CSRName))
	changes := issuing.Changes{Secrets: c.Secrets, Cache: c.Cache, Client: c.Client, Watches: issuertypes.Watches()}
	changes.Run(ctx,
		func(object issuing.Reference) {
			c.changes.Tell(func(req *csr) bool { return c.needs(ctx, req, object) })
		},
		func() { c.changes.Tell(func(*csr) bool { return true }) },
	)
	resource := worker.OneVersion(cmv1.SchemeGroupVersion, "clusterissuers", c.Versions)
	go resource.Follow(ctx, "Following ClusterIssuers", func(ctx context.Context, _ string) error {
		return c.followIssuers(ctx, &cmv1.ClusterIssuer{})
	})
	resource.Name = "issuers"
	resource.Follow(ctx, "Following Issuers", func(ctx context.Context, _ string) error {
		return c.followIssuers(ctx, &cmv1.Issuer{})
	})
	return nil
}

// followIssuers reports changes of the issuers of a kind until ctx ends.
func (c *CSRs) followIssuers(ctx context.Context, kind client.Object) error {
	informer, err := c.Cache.GetInformer(ctx, kind)
	if err != nil {
		return err
	}
	changed := func(object any) {
		if issuer, ok := object.(cmv1.GenericIssuer); ok {
			name := certmanager.SignerOf(issuer).String()
			c.changes.Tell(func(req *csr) bool { return req.Spec.SignerName == name })
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) },
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return informer.RemoveEventHandler(registration)
}

// needs reports whether the certificate that a request asks for depends on an
// object.
func (c *CSRs) needs(ctx context.Context, req *csr, object issuing.Reference) bool {
	who, isIssuer := certmanager.ParseSignerName(req.Spec.SignerName)
	if !isIssuer {
		return false
	}
	found, err := find(ctx, c.Cache, who)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot tell whether a request waits for an object; it is tried again after a while", "request", req.Name)
		return false
	}
	asked := issuing.Request{Request: request.Outline(v1alpha1.CertificateSigningRequests, req)}
	return found != nil && slices.Contains(c.issuers.Needs(found, asked), object)
}
