package storespace

import "time"

// Reading is how full a store is at some moment, in bytes.
type Reading struct {
	// Size is that of the database file, InUse what of it holds something.
	Size, InUse int64
	// Limit is the size beyond which etcd refuses to write.
	Limit int64
	// Full says that etcd refuses to write (its alarm NOSPACE).
	Full bool
	// Revision is the latest one.
	Revision int64
}

// level is how much is still allowed.
type level int

const (
	// roomy: whatever fits.
	roomy level = iota
	// scarce: tenants are held to their shares.
	scarce
	// tight: large objects are not written again before their past is removed.
	tight
	// full: nothing grows but what the server and its administrators write.
	full
	// critical: etcd itself is about to refuse. What is written again and again
	// has to be small.
	critical
)

// reserve is how much there is beyond a quota for what must be written.
func reserve(limit, quota int64) int64 {
	return min(max(quota/8, 16<<20), limit-quota)
}

// fileIsFull reports whether etcd is about to refuse, whatever is in its file.
func (r Reading) fileIsFull(quota int64) bool {
	return r.Size >= r.Limit-reserve(r.Limit, quota)/4
}

// isHollow reports whether the file is large and mostly holes.
func (r Reading) isHollow(quota int64) bool {
	return r.Size > quota/2 && r.InUse < r.Size/2
}

// levelOf compares with a quota.
func levelOf(r Reading, quota int64) level {
	switch {
	case r.Full, r.InUse >= quota+reserve(r.Limit, quota)/2, r.fileIsFull(quota):
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

// history is what has been done about the space of a store.
type history struct {
	// compacted is the revision up to which there is no past, lean how much was
	// in use after that; 0 if nobody has looked since.
	compacted, lean int64
	// past is the latest revision of the reading before this one.
	past int64
	// pressed says that there was no room for something since then.
	pressed bool
	// reclaimed is when the file was made smaller.
	reclaimed time.Time
}

// plan is what to do about the space of a store, in the order of its fields.
type plan struct {
	// compact removes the past before this revision; 0 is not to.
	compact int64
	reclaim bool
	disarm  bool
}

const (
	// growth is the part of the quota that a store may grow by before its past is
	// removed: one object that is written again and again is many.
	growth = 16
	// reclaimEvery is how long the file is left as it is. Nothing is read or
	// written while it is made smaller.
	reclaimEvery = 10 * time.Minute
)

// decide is asked regularly. What changed since it was asked last stays in the
// past for those who watch.
func decide(r Reading, quota int64, h history, now time.Time) plan {
	var p plan
	level := levelOf(r, quota)
	grown := h.lean > 0 && r.InUse-h.lean > quota/growth
	if (grown || h.pressed || level >= full) && h.past > h.compacted {
		p.compact = h.past
	}
	large := r.fileIsFull(quota)
	worthIt := r.Size-r.InUse > reserve(r.Limit, quota)/2
	if worthIt && (r.Full || large && now.Sub(h.reclaimed) >= reclaimEvery) {
		p.reclaim = true
	}
	p.disarm = r.Full && (!large || p.reclaim)
	return p
}
