package declared

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/notify"
)

// Set holds the declared signers of a process by their names. The zero value is empty. It
// is safe for concurrent use.
type Set struct {
	// Order finds the order of an ACME client that a request was made for. It is set
	// before the set is used; nil if there are none.
	Order func(context.Context, *request.Request) (*v1alpha1.ProvenOrder, error)
	// Changes notifies of changes of the set that can matter to requests that
	// wait for a signer.
	Changes notify.List[struct{}]

	mu       sync.RWMutex // guards the fields below
	signers  map[string]*Signer
	counts   map[types.UID]*Counts
	complete bool
}

// Find returns the signer with this name, or nil if it is not declared.
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

// Put adds a signer, and replaces one with the same name or object.
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
		s.Changes.Tell(struct{}{})
	}
}

// Remove removes the signer of an object, if it exists.
func (s *Set) Remove(object string) {
	s.mu.Lock()
	removed := s.forget(object, "")
	s.mu.Unlock()
	if removed {
		s.Changes.Tell(struct{}{})
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

// Counts returns the counts of an object, which are kept as long as the process
// runs.
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

// Complete reports whether MarkComplete has been called.
func (s *Set) Complete() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.complete
}

// MarkComplete records that all existing signers have been added.
func (s *Set) MarkComplete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = true
}

// Count counts an answer of the signer with this name, given at this time.
func (s *Set) Count(name string, issued bool, at time.Time) {
	switch signer := s.Find(name); {
	case signer == nil: // it was removed meanwhile
	case issued:
		signer.Counts.Issued(at)
	default:
		signer.Counts.Refused()
	}
}
