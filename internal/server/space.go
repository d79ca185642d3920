package server

import (
	"cmp"
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
