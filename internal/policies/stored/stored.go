// Package stored indexes the stored requests by their keys and owners.
package stored

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// Index holds the facts that policies read of stored requests, not the requests
// themselves. It is safe for concurrent use.
type Index struct {
	mu             sync.Mutex        // guards all below
	uses           map[string]*entry // by UID
	byKey, byOwner map[keyuse.Digest][]*keyuse.Use
	// listed are the kinds whose requests are all known.
	listed map[v1alpha1.RequestKind]bool
	// changed is closed at the next change; nil while no goroutine waits for one.
	changed chan struct{}
}

// entry is a request in the index.
type entry struct {
	keyuse.Use
	// claimed: the request is getting its certificate.
	claimed bool
}

// New returns an empty index.
func New() *Index {
	return &Index{
		uses: map[string]*entry{}, byKey: map[keyuse.Digest][]*keyuse.Use{}, byOwner: map[keyuse.Digest][]*keyuse.Use{},
		listed: map[v1alpha1.RequestKind]bool{},
	}
}

// wait is how long Find waits for a request that is stored and has not been seen.
const wait = 500 * time.Millisecond

// Find returns the requests that come before a request. It returns false while not all
// stored requests are known, including the request itself if isStored is set.
func (x *Index) Find(ctx context.Context, of keyuse.Use, isStored bool) (v1alpha1.StoredKeys, bool) {
	if isStored {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		x.await(ctx, of.UID)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.listed) < len(requestkind.All) || isStored && x.uses[of.UID] == nil {
		return v1alpha1.StoredKeys{}, false
	}
	return x.find(of, isStored), true
}

// Approved returns the requests of the same owner that people have approved and that
// have a certificate, the last ones first.
func (x *Index) Approved(of keyuse.Use) []v1alpha1.StoredRequest {
	x.mu.Lock()
	defer x.mu.Unlock()
	return keyuse.Approved(&of, x.byOwner[of.Owner])
}

// Before returns the requests that come before a request, out of those that the
// index has. If it does not have the request itself, all others come before it.
func (x *Index) Before(of keyuse.Use) v1alpha1.StoredKeys {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.find(of, x.uses[of.UID] != nil)
}

// find has mu locked.
func (x *Index) find(of keyuse.Use, isStored bool) v1alpha1.StoredKeys {
	if !isStored {
		of.UID = ""
	} else if known := x.uses[of.UID]; known != nil {
		of.State = known.State
	}
	return keyuse.Find(&of, x.byKey[of.Key], x.byOwner[of.Owner])
}

// await waits until the index has a request and all kinds are listed, or ctx ends.
func (x *Index) await(ctx context.Context, uid string) {
	for {
		x.mu.Lock()
		if len(x.listed) == len(requestkind.All) && x.uses[uid] != nil {
			x.mu.Unlock()
			return
		}
		if x.changed == nil {
			x.changed = make(chan struct{})
		}
		changed := x.changed
		x.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// Claim notes that a request is getting its certificate, so that it comes before others
// with its key. It returns false if other requests than seen, which were used for the
// decision, come before it: then it has to be decided again.
func (x *Index) Claim(of keyuse.Use, seen v1alpha1.StoredKeys) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.uses[of.UID]
	if now := x.find(of, true); known == nil || !same(now.Same, seen.Same) || !same(now.Previous, seen.Previous) {
		return false
	}
	known.claimed, known.Issued = true, true
	return true
}

func same(a, b *v1alpha1.StoredRequest) bool { return a == b || a != nil && b != nil && *a == *b }

// put adds a request, or notes its present state.
func (x *Index) put(u keyuse.Use) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(u)
	x.tell()
}

// add has mu locked.
func (x *Index) add(u keyuse.Use) {
	if known := x.uses[u.UID]; known != nil {
		known.set(u.State)
		return
	}
	one := &entry{Use: u}
	x.uses[u.UID] = one
	if u.Key != (keyuse.Digest{}) {
		x.byKey[u.Key] = append(x.byKey[u.Key], &one.Use)
	}
	x.byOwner[u.Owner] = append(x.byOwner[u.Owner], &one.Use)
}

// set notes the state of a request. A claim ends when the request has failed.
func (e *entry) set(s keyuse.State) {
	e.claimed = e.claimed && !s.Refused
	e.State = s
	e.Issued = s.Issued || e.claimed
}

// state notes the state of a request, and reports whether the request is known.
func (x *Index) state(uid string, s keyuse.State) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.uses[uid]
	if known != nil {
		known.set(s)
	}
	return known != nil
}

func (x *Index) remove(uid string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(uid)
	x.tell()
}

// forget has mu locked.
func (x *Index) forget(uid string) {
	known := x.uses[uid]
	if known == nil {
		return
	}
	delete(x.uses, uid)
	without(x.byKey, known.Key, &known.Use)
	without(x.byOwner, known.Owner, &known.Use)
}

func without(of map[keyuse.Digest][]*keyuse.Use, key keyuse.Digest, gone *keyuse.Use) {
	rest := of[key]
	if i := slices.Index(rest, gone); i >= 0 { // their order does not matter
		rest[i] = rest[len(rest)-1]
		rest[len(rest)-1] = nil
		rest = rest[:len(rest)-1]
	}
	if of[key] = rest; len(rest) == 0 {
		delete(of, key)
	}
}

// replace has the index know all requests of a kind, those in more and those with a
// UID in known, and no others.
func (x *Index) replace(kind v1alpha1.RequestKind, more []keyuse.Use, known ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	stored := make(map[string]bool, len(more)+len(known))
	for _, uid := range known {
		stored[uid] = true
	}
	for _, u := range more {
		stored[u.UID] = true
		x.add(u)
	}
	for uid, one := range x.uses {
		if one.Kind == kind && !stored[uid] {
			x.forget(uid)
		}
	}
	x.listed[kind] = true
	x.tell()
}

// tell has mu locked.
func (x *Index) tell() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}
