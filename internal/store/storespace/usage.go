package storespace

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// usage estimates how much of the store each tenant uses: the last count, plus the writes of
// this server since. It is safe for concurrent use.
type usage struct {
	// classes are the classes whose tenants are also counted together.
	classes map[string]int

	mu      sync.Mutex
	counted map[fairshare.Tenant]int64 // nil before the first count
	// since holds the changes since the count in counted began; sinceNext holds the changes
	// since the current count began.
	since, sinceNext map[fairshare.Tenant]int64
}

func newUsage(classes map[string]int) *usage {
	return &usage{classes: classes, since: map[fairshare.Tenant]int64{}, sinceNext: map[fairshare.Tenant]int64{}}
}

// changed notes that an object of a tenant has become larger or smaller.
func (u *usage) changed(tenant fairshare.Tenant, by int64) {
	if by == 0 || tenant == (fairshare.Tenant{}) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counted == nil && len(u.sinceNext) > maxUncounted {
		return // not needed before the first count, and there may be any number of tenants
	}
	u.since[tenant] += by
	u.sinceNext[tenant] += by
	if class := classOf(tenant); u.classes[class.Class] > 0 && class != tenant {
		u.since[class] += by
		u.sinceNext[class] += by
	}
}

// classOf returns what stands for all tenants of a class. It has no name.
func classOf(tenant fairshare.Tenant) fairshare.Tenant { return fairshare.Tenant{Class: tenant.Class} }

// maxUncounted bounds how many tenants are remembered before the first count.
const maxUncounted = 10_000

// of returns the bytes that a tenant uses; known is false before the first count.
func (u *usage) of(tenant fairshare.Tenant) (bytes int64, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counted[tenant] + u.since[tenant], u.counted != nil
}

// begin starts a count, and end ends it with its result.
func (u *usage) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sinceNext = map[fairshare.Tenant]int64{}
}

func (u *usage) end(counted map[fairshare.Tenant]int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	classes := map[fairshare.Tenant]int64{}
	for tenant, bytes := range counted {
		if class := classOf(tenant); u.classes[class.Class] > 0 && class != tenant {
			classes[class] += bytes
		}
	}
	maps.Copy(counted, classes)
	u.counted, u.since = counted, maps.Clone(u.sinceNext)
}

// holding is how much a tenant has.
type holding struct {
	tenant fairshare.Tenant
	bytes  int64
}

// largest returns the tenants that have the most. It is called each second: it does not sort
// all.
func (u *usage) largest(many int) []holding {
	u.mu.Lock()
	defer u.mu.Unlock()
	var most []holding
	for tenant, bytes := range u.counted {
		if u.classes[tenant.Class] > 0 && tenant == classOf(tenant) {
			continue
		}
		one := holding{tenant, bytes + u.since[tenant]}
		if i, _ := slices.BinarySearchFunc(most, one, byBytes); i < many {
			most = slices.Insert(most, i, one)
			most = most[:min(many, len(most))]
		}
	}
	return most
}

// byBytes orders holdings, the largest first.
func byBytes(a, b holding) int {
	return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.tenant.Class, b.tenant.Class), cmp.Compare(a.tenant.Name, b.tenant.Name))
}

// How many objects are read at a time depends on their size: a page is to have
// pageBytes at most, or twice as much.
const (
	firstPage = 16
	maxPage   = 1024
	pageBytes = 4 << 20
)

// nextPage returns how many objects to read after a page with this many bytes.
func nextPage(page int64, bytes int64) int64 {
	switch {
	case bytes > pageBytes:
		return max(page/2, 1)
	case bytes < pageBytes/2:
		return min(page*2, maxPage)
	}
	return page
}

// count reads all keys below prefix.
func count(ctx context.Context, kv clientv3.KV, prefix string, owner Owner) (map[fairshare.Tenant]int64, error) {
	counted := map[fairshare.Tenant]int64{}
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	page := int64(firstPage)
	for {
		answer, err := kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithSerializable())
		if err != nil {
			return nil, fmt.Errorf("counting how much of the store each tenant uses: %w", err)
		}
		bytes := int64(0)
		for _, pair := range answer.Kvs {
			bytes += int64(len(pair.Value))
			owner(string(pair.Key), pair.Value, func(tenant fairshare.Tenant, bytes int64) {
				if tenant != (fairshare.Tenant{}) {
					counted[tenant] += bytes
				}
			})
		}
		if !answer.More || len(answer.Kvs) == 0 {
			return counted, nil
		}
		page = nextPage(page, bytes)
		from = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}
