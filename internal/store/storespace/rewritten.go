package storespace

import "github.com/certplane/certplane/internal/tenant/fairshare"

// rewritten counts the bytes of former versions of large objects in a store's past, by the
// tenant that rewrote the objects. The past is removed up to the reading before the latest
// one, so later rewrites still count after that.
type rewritten struct {
	// recent is since the latest reading, last between that and the one before,
	// and older before that.
	recent, last, older map[fairshare.Tenant]int64
}

func newRewritten() rewritten {
	return rewritten{recent: map[fairshare.Tenant]int64{}, last: map[fairshare.Tenant]int64{}, older: map[fairshare.Tenant]int64{}}
}

func (r *rewritten) of(tenant fairshare.Tenant) int64 {
	return r.recent[tenant] + r.last[tenant] + r.older[tenant]
}

// look is called before each reading.
func (r *rewritten) look() {
	for tenant, bytes := range r.last {
		r.older[tenant] += bytes
	}
	r.last, r.recent = r.recent, map[fairshare.Tenant]int64{}
}

// missed is called after look if the reading failed: the latest one is still that
// before.
func (r *rewritten) missed() {
	for tenant, bytes := range r.last {
		r.recent[tenant] += bytes
	}
	clear(r.last)
}

// compacted is called when the past was removed up to the reading before the
// latest one.
func (r *rewritten) compacted() { clear(r.older) }
