package revocation

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Lists has the list of each CA that was signed last, and builds its bytes. It is safe for
// concurrent use.
type Lists struct {
	// Base is the URL below which everybody gets the lists, http://HOST; empty if nowhere. It
	// is set before use.
	Base  string
	index *Index

	mu      sync.RWMutex
	lists   map[string]*List
	changed chan struct{} // closed and replaced with each change
	// awaited is until when URLOf waits for the first list of a CA.
	awaited map[string]time.Time
}

// List is the list of a CA. It must not be modified.
type List struct {
	// ID identifies the CA (ListID).
	ID string
	// Revision is the store revision at which Last was written.
	Revision int64
	// Last is the list that was signed last; nil if it cannot be read.
	Last *StoredList
	// CA is the certificate of the CA in Last.
	CA *x509.Certificate
	// Served is the list of DER: Last, or the one before if this server cannot build that;
	// nil if there is none.
	Served *StoredList
	DER    []byte
	// Err is why Served is not Last; nil also while it is being built.
	Err error
}

// Usable reports whether the list can be given to verifiers: an ended list is worse than none.
func (l *List) Usable(now time.Time) bool { return l.DER != nil && now.Before(l.Served.NextUpdate) }

// NewLists returns lists of the entries in an index; Set and Run fill it.
func NewLists(index *Index) *Lists {
	return &Lists{index: index, lists: map[string]*List{}, changed: make(chan struct{}), awaited: map[string]time.Time{}}
}

// Changed returns a channel that is closed with the next change.
func (l *Lists) Changed() <-chan struct{} {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.changed
}

// Get returns the list of a CA; nil if there is none.
func (l *Lists) Get(id string) *List {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lists[id]
}

// All returns all lists, by their IDs.
func (l *Lists) All() []*List {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.SortedFunc(maps.Values(l.lists), func(a, b *List) int { return cmp.Compare(a.ID, b.ID) })
}

// Set notes what the store has under the ID at a revision. der are the bytes, if they are
// known; otherwise Run builds them.
func (l *Lists) Set(id string, revision int64, data, der []byte) {
	list := &List{ID: id, Revision: revision, Last: &StoredList{}}
	if err := json.Unmarshal(data, list.Last); err != nil {
		list.Last, list.Err = nil, fmt.Errorf("reading the stored list: %w", err)
	} else if chain, err := list.Last.Certificates(); err != nil {
		list.Last, list.Err = nil, err
	} else {
		list.CA = chain[0]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.lists[id]; before != nil {
		if before.Revision >= revision {
			return
		}
		list.Served, list.DER = before.Served, before.DER
		if list.same() { // only the signers have changed
			list.Served = list.Last
		}
	}
	if der != nil {
		list.Served, list.DER = list.Last, der
	}
	l.put(list)
}

// same reports whether DER are the bytes of Last.
func (l *List) same() bool {
	return l.Served != nil && l.Last != nil && string(l.Served.SHA256) == string(l.Last.SHA256)
}

// Remove notes that the store has nothing under the ID.
func (l *Lists) Remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lists, id)
	l.notify()
}

// put and notify are called with l.mu held.
func (l *Lists) put(list *List) {
	l.lists[list.ID] = list
	l.notify()
}

func (l *Lists) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Run builds lists that other servers have signed, until ctx ends. failed is called for each
// one that this server cannot build.
func (l *Lists) Run(ctx context.Context, failed func(*List)) {
	l.Follow(ctx, func() { l.Build(failed) })
}

// Follow is Index.Follow for lists.
func (l *Lists) Follow(ctx context.Context, do func()) { follow(ctx, l.Changed, do) }

// Build builds the lists that have changed.
func (l *Lists) Build(failed func(*List)) {
	for _, list := range l.All() {
		if list.Err != nil || list.same() {
			continue
		}
		if built := l.build(list); built.Err != nil {
			failed(built)
		}
	}
}

func (l *Lists) build(list *List) *List {
	built := *list
	der, err := list.Last.build(l.index)
	if err != nil {
		built.Err = err
	} else {
		built.Served, built.DER = list.Last, der
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists[list.ID] == list {
		l.put(&built)
	}
	return &built
}
