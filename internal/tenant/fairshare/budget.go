package fairshare

import "sync"

// Budget counts what tenants hold: things or bytes. It is safe for concurrent
// use.
type Budget struct {
	total, perTenant, guaranteed int64

	mu   sync.Mutex
	used int64
	held map[Tenant]int64
}

// NewBudget returns a budget of total for all tenants and perTenant for each; 0 means no
// limit. A tenant gets the guaranteed amount even when other tenants have taken the total.
func NewBudget(total, perTenant, guaranteed int64) *Budget {
	return &Budget{total: total, perTenant: perTenant, guaranteed: guaranteed, held: map[Tenant]int64{}}
}

// Take reports whether tenant gets n more; if so, the caller must Give them
// back.
func (b *Budget) Take(tenant Tenant, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.held[tenant] + n
	if b.perTenant > 0 && held > b.perTenant {
		return false
	}
	if b.total > 0 && b.used+n > b.total && held > b.guaranteed {
		return false
	}
	b.used += n
	b.held[tenant] = held
	return true
}

// Give returns what tenant took.
func (b *Budget) Give(tenant Tenant, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.held[tenant] -= n; b.held[tenant] == 0 {
		delete(b.held, tenant)
	}
}
