package requestsign

import (
	"context"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/worker"
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
	changes := issuing.Changes{
		Config: c.Config, Cache: c.Cache,
		Watches: append(c.Issuers.Watches(), issuing.Watch{Object: &cmv1.ClusterIssuer{}, Resource: "clusterissuers"}, issuing.Watch{Object: &cmv1.Issuer{}, Resource: "issuers"}),
	}
	changes.Run(ctx,
		func(object issuing.Reference) {
			c.changes.Tell(func(req *csr) bool { return c.needs(ctx, req, object) })
		},
		func() { c.changes.Tell(func(*csr) bool { return true }) },
	)
	<-ctx.Done()
	return nil
}

// needs reports whether the certificate that a request asks for depends on an
// object: its issuer, or what the issuer needs.
func (c *CSRs) needs(ctx context.Context, req *csr, object issuing.Reference) bool {
	who, isIssuer := certmanager.ParseSignerName(req.Spec.SignerName)
	if !isIssuer {
		return false
	}
	if kind := object.Kind; kind.Group == certmanager.Group && (kind.Kind == cmv1.IssuerKind || kind.Kind == cmv1.ClusterIssuerKind) {
		return kind.Kind == who.Kind && object.Namespace == who.Namespace && object.Name == who.Name
	}
	found, err := find(ctx, c.Cache, who)
	if err != nil {
		worker.CannotWake(ctx, err, "Cannot tell whether a request waits for an object; the controller tries again later", "request", req.Name)
		return false
	}
	asked := issuing.Request{Request: request.Outline(v1alpha1.CertificateSigningRequests, req)}
	return found != nil && slices.Contains(c.Issuers.Needs(found, asked), object)
}
