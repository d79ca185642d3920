package acmeorders

import (
	"context"
	"crypto/x509"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/pki"
)

// bundles reads the roots of signers from their ClusterTrustBundles. It keeps them for
// a while: each certificate of a signer that is a root needs them.
type bundles struct {
	api  client.Client
	kept *cache.LRUExpireCache
}

const (
	keptSigners = 1000
	keptFor     = 10 * time.Second
)

func newBundles(api client.Client, clock clock.PassiveClock) *bundles {
	return &bundles{api, cache.NewLRUExpireCacheWithClock(keptSigners, clock)}
}

// of returns the roots of a signer, as far as they can be read.
func (b *bundles) of(ctx context.Context, signer string) []*x509.Certificate {
	if kept, ok := b.kept.Get(signer); ok {
		return kept.([]*x509.Certificate)
	}
	list := &certificatesv1.ClusterTrustBundleList{}
	if err := b.api.List(ctx, list, client.MatchingFields{"spec.signerName": signer}); err != nil {
		log.FromContext(ctx).V(1).Info("Cannot read the roots of a signer", "signer", signer, "err", err)
		return nil
	}
	var roots []*x509.Certificate
	for _, bundle := range list.Items {
		roots = append(roots, parsed(bundle.Spec.TrustBundle)...)
	}
	if len(roots) > 0 { // a new signer publishes them a moment later
		b.kept.Add(signer, roots, keptFor)
	}
	return roots
}

// parsed returns the certificates of a bundle, none if it is not one.
func parsed(bundle string) []*x509.Certificate {
	certs, err := pki.ParseBundle([]byte(bundle))
	if err != nil {
		return nil
	}
	return certs
}
