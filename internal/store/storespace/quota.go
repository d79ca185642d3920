package storespace

// minReserve is the smallest reserve of a store.
const minReserve = 16 << 20

// reserveOf returns the room above a quota for writes that must succeed: those of a start,
// and deletions.
func reserveOf(quota int64) int64 { return max(quota/8, minReserve) }

// LimitFor returns the limit for an embedded etcd in which at most quota bytes may be in use
// and whose file has size bytes. The file may be larger than the quota: removed objects
// leave holes, which do not always fit new objects. The limit includes a reserve even if
// more than the quota is in use.
func LimitFor(quota, size int64) int64 { return max(2*quota, size) + reserveOf(quota) }

// QuotaWithin returns quota, or less if an etcd with this limit has no room for
// it and its reserve.
func QuotaWithin(quota, limit int64) int64 {
	largest := limit - limit/9 // has a ninth of the limit as its reserve, an eighth of itself
	return min(quota, largest, max(limit-minReserve, limit/2))
}

// reserve returns the reserve beyond a quota, as far as there is room for it.
func (r Reading) reserve(quota int64) int64 { return min(reserveOf(quota), r.Limit-quota) }
