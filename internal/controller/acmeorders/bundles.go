package acmeorders

import (
	"context"
	"crypto/x509"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/policies"
)

// bundles reads the roots of signers from their ClusterTrustBundles. It caches them for a
// while, because each certificate of a signer that is a root needs them.
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
	roots, err := policies.BundledRoots(ctx, b.api, signer)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Cannot read the roots of a signer", "signer", signer, "err", err)
	}
	if len(roots) > 0 { // a new signer publishes them a moment later
		b.kept.Add(signer, roots, keptFor)
	}
	return roots
}
