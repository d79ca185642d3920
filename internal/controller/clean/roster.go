package clean

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// roster knows the requests of each requester by name. It is safe for
// concurrent use.
type roster struct {
	exempt []string // groups whose members are not in it

	mu    sync.Mutex // guards names
	names map[string]sets.Set[string]
}

func newRoster(exempt []string) *roster {
	return &roster{exempt: exempt, names: map[string]sets.Set[string]{}}
}

// add notes a request, and tells whether its requester is in the roster.
func (r *roster) add(c *csr) bool {
	if slices.ContainsFunc(c.Spec.Groups, func(group string) bool { return slices.Contains(r.exempt, group) }) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	names, ok := r.names[c.Spec.Username]
	if !ok {
		names = sets.Set[string]{}
		r.names[c.Spec.Username] = names
	}
	names.Insert(c.Name)
	return true
}

func (r *roster) remove(c *csr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.names[c.Spec.Username]
	names.Delete(c.Name)
	if len(names) == 0 {
		delete(r.names, c.Spec.Username)
	}
}

// over returns the names of a requester's requests if there are more than
// limit, else nothing.
func (r *roster) over(limit int, requester string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.names[requester]
	if len(names) <= limit {
		return nil
	}
	return names.UnsortedList()
}
