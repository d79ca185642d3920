package clean

import (
	"slices"
	"sync"

	"github.com/certplane/certplane/internal/policy/retention"
)

// requesterIndex holds the names and sizes of each requester's requests. It is
// safe for concurrent use.
type requesterIndex struct {
	exempt []string // groups whose members are not indexed

	mu         sync.Mutex // guards requesters
	requesters map[string]*holding
}

// holding is the requests of one requester.
type holding struct {
	sizes map[string]int64 // by name of the request
	total int64
}

func newRequesterIndex(exempt []string) *requesterIndex {
	return &requesterIndex{exempt: exempt, requesters: map[string]*holding{}}
}

// add records the current version of a request, and reports whether its requester is in the
// index.
func (r *requesterIndex) add(c *csr) bool {
	if slices.ContainsFunc(c.Spec.Groups, func(group string) bool { return slices.Contains(r.exempt, group) }) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.requesters[c.Spec.Username]
	if !ok {
		h = &holding{sizes: map[string]int64{}}
		r.requesters[c.Spec.Username] = h
	}
	size := retention.Size(c)
	h.total += size - h.sizes[c.Name]
	h.sizes[c.Name] = size
	return true
}

func (r *requesterIndex) remove(c *csr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.requesters[c.Spec.Username]
	if !ok {
		return
	}
	h.total -= h.sizes[c.Name]
	delete(h.sizes, c.Name)
	if len(h.sizes) == 0 {
		delete(r.requesters, c.Spec.Username)
	}
}

// over returns the names of a requester's requests if they exceed limit, and
// nil otherwise.
func (r *requesterIndex) over(limit retention.Cap, requester string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.requesters[requester]
	if !ok || !limit.Exceeded(len(h.sizes), h.total) {
		return nil
	}
	names := make([]string, 0, len(h.sizes))
	for name := range h.sizes {
		names = append(names, name)
	}
	return names
}
