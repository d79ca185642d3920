package storespace

import "github.com/certplane/certplane/internal/tenant/fairshare"

// Refusal is the reason why a write was refused.
type Refusal struct {
	// Tenant is set when only this tenant has too much.
	Tenant *fairshare.Tenant
	// InUse is how many bytes of the store are in use, or how many the tenant has;
	// Most is how many it may have.
	InUse, Most int64
	// Again means that there will be room in a moment.
	Again bool
	// FileIsFull reports that there would be room if etcd's file were
	// defragmented. File is the size of that file; beyond FileMost, etcd refuses
	// to write.
	FileIsFull     bool
	File, FileMost int64
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Tenant != nil {
		return "the tenant has its share of the store"
	}
	return "the store is full"
}

// Write is a write to the store.
type Write struct {
	// Owner is the tenant that is accountable for the object; the zero Tenant is
	// none.
	Owner fairshare.Tenant
	// Privileged marks a write by a client to which shares do not apply: the server
	// itself, which is never refused, and its administrators.
	Privileged bool
	// Administrator is set for a write of an administrator. The second half of the reserve
	// is for deletions and for the server's own writes.
	Administrator bool
	// Dispensable marks an object that is not needed, by whichever client it is
	// written.
	Dispensable bool
	// Denial marks the denial of a stored request, with its record. The owner's share does
	// not hold for one that is small: each request is denied once, and counted when it was made.
	Denial bool
	// Revocation marks what revokes certificates that were not revoked before. Shares do not
	// hold for it, and a full store takes it as if an administrator wrote it.
	Revocation bool
	// Deleting marks an object that is being deleted.
	Deleting bool
	// Old and New are the sizes of the object before and after, 0 if it does not
	// exist.
	Old, New int64
}

// rewrites reports whether w leaves much in the past of the store, without
// need.
func (w Write) rewrites() bool {
	return w.Old > small && w.New > small && !w.Privileged && !w.Deleting
}

const (
	// slack is how much an object may grow in a full store: heartbeats and status
	// are written again and again, and their length varies.
	slack = 1 << 10
	// small is the size that may be written again and again when etcd is about to
	// refuse.
	small = 16 << 10
)

// allowedAt reports whether w is allowed at a level, without regard to shares.
func (w Write) allowedAt(l level) bool {
	if w.Deleting || l < full {
		return true
	}
	if w.Old == 0 && w.Dispensable {
		return false
	}
	if w.Privileged && (!w.Administrator || l < critical) || w.Revocation && l < critical {
		return true
	}
	if l == critical {
		return w.New <= w.Old && w.New <= small || w.New < w.Old/2
	}
	return w.Old > 0 && w.New <= w.Old+slack
}
