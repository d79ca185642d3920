package storespace

import "time"

// Reading is how full a store is at some moment, in bytes.
type Reading struct {
	// Size is the size of the database file, InUse the part of it that holds data.
	Size, InUse int64
	// Limit is the size beyond which etcd refuses to write.
	Limit int64
	// Full means that etcd refuses to write (its alarm NOSPACE).
	Full bool
	// Revision is the latest one.
	Revision int64
	// DiskFree is the free space of the file system of the database; nil if it is not
	// known, as of other machines.
	DiskFree *int64
}

// level is the set of writes that are still allowed.
type level int

const (
	// roomy: everything is allowed.
	roomy level = iota
	// scarce: tenants are held to their shares.
	scarce
	// tight: large objects are not written again until their past is removed.
	tight
	// full: only writes of the server and its administrators may take more space.
	full
	// critical: etcd itself is about to refuse writes. Only writes of the server may take
	// more space, and only small objects may be rewritten repeatedly.
	critical
)

// fileIsFull reports whether etcd is about to refuse, even if its file has
// holes.
func (r Reading) fileIsFull(quota int64) bool {
	return r.Size >= r.Limit-r.reserve(quota)/4
}

// isHollow reports whether the file is large and mostly holes.
func (r Reading) isHollow(quota int64) bool {
	return r.Size > quota/2 && r.InUse < r.Size/2
}

// levelOf compares a reading with a quota.
func levelOf(r Reading, quota int64) level {
	switch {
	case r.Full, r.InUse >= quota+r.reserve(quota)/2, r.fileIsFull(quota):
		return critical
	case r.InUse >= quota:
		return full
	case r.InUse >= quota-quota/8:
		return tight
	case r.InUse >= quota/2:
		return scarce
	}
	return roomy
}

// history records the measures taken for the space of a store.
type history struct {
	// compacted is the revision up to which the past was removed. lean is how much
	// was in use after that; it is 0 before the next reading.
	compacted, lean int64
	// past is the latest revision of the reading before this one.
	past int64
	// pressed means that a write was refused for lack of room since then.
	pressed bool
	// reclaimed is when the file was made smaller.
	reclaimed time.Time
}

// plan is what to do about the space of a store, in the order of its fields.
type plan struct {
	// compact removes the past before this revision; 0 removes nothing.
	compact int64
	reclaim bool
	disarm  bool
}

const (
	// growth is the part of the quota that a store may grow by before its past is
	// removed: each time an object is written again, it takes room again.
	growth = 16
	// reclaimEvery is the shortest time between two reductions of the file,
	// unless etcd refuses to write already, or the file is mostly holes: that
	// takes little time, and is needed again only after much was written. Nothing
	// can be read or written during one.
	reclaimEvery = 10 * time.Minute
)

// decide is called regularly. What changed since the last call stays in the
// past for watches.
func decide(r Reading, quota int64, h history, now time.Time) plan {
	var p plan
	level := levelOf(r, quota)
	grown := h.lean > 0 && r.InUse-h.lean > quota/growth
	if (grown || h.pressed || level >= full) && h.past > h.compacted {
		p.compact = h.past
	}
	large := r.fileIsFull(quota)
	worthIt := r.Size-r.InUse > r.reserve(quota)/2
	soon := r.isHollow(quota) || now.Sub(h.reclaimed) >= reclaimEvery
	p.reclaim = worthIt && (r.Full || large && soon)
	p.disarm = r.Full && (!large || p.reclaim)
	return p
}
