package storespace

import "github.com/certplane/certplane/internal/share"

// Refusal is why something is not written.
type Refusal struct {
	// Tenant is set when it is this tenant alone that has too much.
	Tenant *share.Tenant
	// InUse is how much the store, or the tenant, has in bytes; Most is how much
	// it may have.
	InUse, Most int64
	// Again says that there will be room in a moment.
	Again bool
	// FileIsFull says that there would be room if etcd's file were defragmented.
	// File is its size; beyond FileMost etcd refuses.
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

// Write is what is about to be written.
type Write struct {
	// Owner is the tenant that answers for the object; the zero Tenant is nobody.
	Owner share.Tenant
	// Privileged is a write by somebody who is never refused: the server itself
	// and its administrators.
	Privileged bool
	// Dispensable is something that nobody will miss, whoever writes it.
	Dispensable bool
	// Deleting is an object that is being deleted.
	Deleting bool
	// Old and New are the sizes of the object, 0 where there is none.
	Old, New int64
}

// rewrites reports whether w leaves much in the past of the store, without need.
func (w Write) rewrites() bool {
	return w.Old > small && w.New > small && !w.Privileged && !w.Deleting
}

const (
	// slack is what an object may grow by in a full store: heartbeats and states
	// are written again and again, and not always as long as before.
	slack = 1 << 10
	// small is what may be written again and again when etcd is about to refuse.
	small = 16 << 10
)

// allowedAt reports whether a store may be written like this at a level. It
// says nothing of shares.
func (w Write) allowedAt(l level) bool {
	if w.Deleting || l < full {
		return true
	}
	if w.Old == 0 && w.Dispensable {
		return false
	}
	if w.Privileged {
		return true
	}
	if l == critical {
		return w.New <= w.Old && w.New <= small || w.New < w.Old/2
	}
	return w.Old > 0 && w.New <= w.Old+slack
}
