package frontend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver"
	"github.com/certplane/certplane/internal/acmeserver/listener"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/rights"
)

// openACME returns the ACME server, which reads and writes the API as its own account.
func openACME(p Process, cfg Config) (FrontEnd, error) {
	if cfg.ACMEListener == nil {
		return FrontEnd{}, nil
	}
	api, err := p.As(rights.ACMEServerAccount)
	if err != nil {
		return FrontEnd{}, err
	}
	kinds := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(kinds), authorizationv1.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return FrontEnd{}, fmt.Errorf("making the scheme of the ACME server: %w", err)
	}
	live, err := inprocess.NewClient(api, client.Options{Scheme: kinds, Mapper: acmeMapper()})
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making the client of the ACME server: %w", err)
	}
	objects, err := inprocess.NewCache(api, cache.Options{
		Scheme: kinds, Mapper: acmeMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&v1alpha1.AcmeOrder{}: {Transform: acmeserver.TransformOrder}},
	})
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making the cache of the ACME server: %w", err)
	}
	server, err := acmeserver.New(context.Background(), acmeserver.Config{
		ExternalURL: cfg.ACMEListener.ExternalURL(), FormerURLs: cfg.ACMEListener.FormerURLs(), Client: live, Cache: objects,
		Roots:   func() []byte { return cfg.ACMEListener.Trust().PEM() },
		Address: func(r *http.Request) netip.Addr { return listener.ClientAddress(r.Context()) },
		Metrics: p.Metrics, Now: p.Now,
	})
	if err != nil {
		return FrontEnd{}, fmt.Errorf("opening the ACME server: %w", err)
	}
	cfg.ACMEListener.Handler = server
	serve := func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		context.AfterFunc(ctx, server.Drain)
		group.Go(func() error { return objects.Start(ctx) })
		group.Go(func() error { return cfg.ACMEListener.Serve(ctx) })
		return group.Wait()
	}
	return FrontEnd{Serve: serve, Ready: cfg.ACMEListener.Ready}, nil
}

// acmeMapper knows the kinds of the ACME server without asking the API, which may not
// serve yet.
func acmeMapper() meta.RESTMapper {
	known := meta.NewDefaultRESTMapper(nil)
	for kind, resource := range map[schema.GroupVersionKind]string{
		v1alpha1.GroupVersion.WithKind("AcmeEndpoint"):                     "acmeendpoint",
		v1alpha1.GroupVersion.WithKind("AcmeAccount"):                      "acmeaccount",
		v1alpha1.GroupVersion.WithKind("AcmeAccountKey"):                   "acmeaccountkey",
		authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"): "subjectaccessreview",
	} {
		addKind(known, kind, resource, meta.RESTScopeRoot)
	}
	for kind, resource := range map[schema.GroupVersionKind]string{
		v1alpha1.GroupVersion.WithKind("AcmeExternalKey"):    "acmeexternalkey",
		v1alpha1.GroupVersion.WithKind("AcmeOrder"):          "acmeorder",
		corev1.SchemeGroupVersion.WithKind("Secret"):         "secret",
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"): "serviceaccount",
	} {
		addKind(known, kind, resource, meta.RESTScopeNamespace)
	}
	return known
}

// addKind adds a kind whose plural has an s, also where the library guesses another.
func addKind(known *meta.DefaultRESTMapper, kind schema.GroupVersionKind, singular string, scope meta.RESTScope) {
	version := kind.GroupVersion()
	known.AddSpecific(kind, version.WithResource(singular+"s"), version.WithResource(singular), scope)
}
