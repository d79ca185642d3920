package storespace

import "github.com/certplane/certplane/internal/share"

// rewritten is how many bytes of large objects of each tenant are in the past of
// a store, since the tenant has written them again. The past is removed up to
// the reading before the latest one, so what was rewritten later counts on.
type rewritten struct {
	// recent is since the latest reading, last between that and the one before,
	// and older before that.
	recent, last, older map[share.Tenant]int64
}

func newRewritten() rewritten {
	return rewritten{recent: map[share.Tenant]int64{}, last: map[share.Tenant]int64{}, older: map[share.Tenant]int64{}}
}

func (r *rewritten) of(tenant share.Tenant) int64 {
	return r.recent[tenant] + r.last[tenant] + r.older[tenant]
}

// look is called before each reading.
func (r *rewritten) look() {
	for tenant, bytes := range r.last {
		r.older[tenant] += bytes
	}
	r.last, r.recent = r.recent, map[share.Tenant]int64{}
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
