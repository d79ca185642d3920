package declared

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Set has the declared signers of a process by their names. The zero value is
// empty. Safe for concurrent use.
type Set struct {
	mu          sync.RWMutex // guards all below
	signers     map[string]*Signer
	counts      map[types.UID]*Counts
	complete    bool
	subscribers map[int]func()
	subscribed  int // so many ever
}

// Find returns the signer of a name, or nil if nobody declares it.
func (s *Set) Find(name string) *Signer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.signers[name]
}

// All returns all signers, sorted by their names.
func (s *Set) All() []*Signer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*Signer
	for _, name := range slices.Sorted(maps.Keys(s.signers)) {
		all = append(all, s.signers[name])
	}
	return all
}

// Put adds a signer, instead of one of the same name or object that there is.
func (s *Set) Put(signer *Signer) {
	s.mu.Lock()
	before := s.signers[signer.Name]
	s.forget(signer.Object, signer.Name)
	if s.signers == nil {
		s.signers = map[string]*Signer{}
	}
	s.signers[signer.Name] = signer
	s.mu.Unlock()
	if !signer.same(before) {
		s.tell()
	}
}

// Remove removes the signer of an object, if there is one.
func (s *Set) Remove(object string) {
	s.mu.Lock()
	removed := s.forget(object, "")
	s.mu.Unlock()
	if removed {
		s.tell()
	}
}

// forget removes the signer of an object unless it has this name.
func (s *Set) forget(object, name string) (removed bool) {
	for key, signer := range s.signers {
		if signer.Object == object && key != name {
			delete(s.signers, key)
			removed = true
		}
	}
	return removed
}

// Counts returns the counts of an object, which live as long as the process.
func (s *Set) Counts(uid types.UID) *Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[types.UID]*Counts{}
	}
	if s.counts[uid] == nil {
		s.counts[uid] = &Counts{}
	}
	return s.counts[uid]
}

// Complete tells whether all signers that there were have been added once.
func (s *Set) Complete() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.complete
}

// MarkComplete says that all signers that there are have been added.
func (s *Set) MarkComplete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = true
}

// Count counts an answer of the signer of a name.
func (s *Set) Count(name string, issued bool) {
	switch signer := s.Find(name); {
	case signer == nil: // it is gone meanwhile
	case issued:
		signer.Counts.Issued(time.Now())
	default:
		signer.Counts.Refused()
	}
}

// Subscribe has changed called after each change of the set that can mean
// something to those who wait for a signer. It must be quick. cancel ends it,
// but for a call that is on its way.
func (s *Set) Subscribe(changed func()) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers == nil {
		s.subscribers = map[int]func(){}
	}
	s.subscribed++
	id := s.subscribed
	s.subscribers[id] = changed
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, id)
	}
}

func (s *Set) tell() {
	s.mu.RLock()
	subscribers := slices.Collect(maps.Values(s.subscribers))
	s.mu.RUnlock()
	for _, changed := range subscribers {
		changed()
	}
}
