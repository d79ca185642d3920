// Package certmanager runs cert-manager's own controllers.
package certmanager

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/gateways"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/listenerset"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// Certificates are the controllers that take a Certificate to its Secret.
var Certificates = []string{
	"certificates-issuing", "certificates-key-manager", "certificates-readiness", "certificates-request-manager",
	"certificates-revision-manager", "certificates-trigger",
}

// workers is how many objects each controller works on at a time: cert-manager's
// default.
const workers = 5

// Start starts controllers, by their names. They run until ctx ends; then wait
// returns the error of one that has ended before.
func Start(ctx context.Context, options controller.ContextOptions, names ...string) (wait func() error, err error) {
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return nil, err
	}
	var prepared []controller.Interface
	for _, name := range names {
		construct, known := controller.Known()[name]
		if !known {
			return nil, fmt.Errorf("unknown controller %q", name)
		}
		one, err := construct(factory)
		if err != nil {
			return nil, fmt.Errorf("preparing %s: %w", name, err)
		}
		prepared = append(prepared, one)
	}
	shared, err := factory.Build("informers")
	if err != nil {
		return nil, err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	if options.EnableGatewayAPI {
		shared.GWShared.Start(ctx.Done())
	}
	var running sync.WaitGroup
	ended := make([]error, len(prepared))
	for i, one := range prepared {
		running.Go(func() {
			if err := one.Run(workers, ctx); err != nil && ctx.Err() == nil {
				ended[i] = fmt.Errorf("%s ended: %w", names[i], err)
			}
		})
	}
	return func() error {
		running.Wait()
		return errors.Join(ended...)
	}, nil
}
