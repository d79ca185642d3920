package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/etcd"
	"github.com/certplane/certplane/internal/storespace"
)

const (
	defaultQuotaMiB = etcd.DefaultQuota >> 20
	minQuotaMiB     = 32
	// remoteLimit is the limit of an etcd that does not report one (its
	// --quota-backend-bytes is 0).
	remoteLimit = 2 << 30
)

func (c EtcdConfig) validateSpace() error {
	if c.QuotaMiB != 0 && c.QuotaMiB < minQuotaMiB || c.QuotaMiB > math.MaxInt32 {
		return fmt.Errorf("etcd.quotaMiB: %d is out of range: must be from %d to %d, or 0 for the default", c.QuotaMiB, minQuotaMiB, math.MaxInt32)
	}
	if c.MaxPercentPerTenant < 0 || c.MaxPercentPerTenant > 100 {
		return fmt.Errorf("etcd.maxPercentPerTenant: %d is no percentage; 0 is no bound", c.MaxPercentPerTenant)
	}
	return nil
}

func (c EtcdConfig) quota() int64 { return int64(cmp.Or(c.QuotaMiB, defaultQuotaMiB)) << 20 }

// newSpace watches over the space of a store.
func newSpace(cfg EtcdConfig, store storespace.Store, kv clientv3.KV, quota int64) (*storespace.Space, error) {
	return storespace.New(storespace.Config{
		Store: store, KV: kv, Prefix: cfg.Prefix, Owner: apiserver.Owners(cfg.Prefix),
		Quota: quota, PercentPerTenant: cfg.MaxPercentPerTenant, Metrics: legacyregistry.Registerer(),
	})
}

// quotaWithin returns the quota of the configuration, or less if limit, that of
// the etcd, is too small for it: as with the etcd in this process, there is a
// reserve.
func (c EtcdConfig) quotaWithin(limit int64) int64 {
	reserve := min(max(limit/9, 16<<20), limit/2)
	return min(c.quota(), limit-reserve)
}

// embeddedSpace is the space of the etcd inside this process.
type embeddedSpace struct{ etcd *etcd.Server }

func (s embeddedSpace) Read(context.Context) (storespace.Reading, error) {
	return storespace.Reading(s.etcd.Space()), nil
}

func (s embeddedSpace) Compact(ctx context.Context, revision int64) error {
	return s.etcd.Compact(ctx, revision)
}

func (s embeddedSpace) Reclaim(context.Context) error    { return s.etcd.Reclaim() }
func (s embeddedSpace) Disarm(ctx context.Context) error { return s.etcd.Disarm(ctx) }

// remoteSpace is the space of an external etcd, which can have other users: its
// operator decides when its members are defragmented.
type remoteSpace struct {
	remote etcd.Remote
	client *clientv3.Client
}

func (s remoteSpace) Read(ctx context.Context) (storespace.Reading, error) {
	space, err := s.remote.Space(ctx, s.client)
	space.Limit = cmp.Or(space.Limit, remoteLimit)
	return storespace.Reading(space), err
}

func (s remoteSpace) Compact(ctx context.Context, revision int64) error {
	return etcd.Compact(ctx, s.client, revision)
}

func (s remoteSpace) Reclaim(context.Context) error    { return errors.ErrUnsupported }
func (s remoteSpace) Disarm(ctx context.Context) error { return etcd.Disarm(ctx, s.client) }
