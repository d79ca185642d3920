package challenges

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/policy/challenge"
)

// memories hold the state of Challenges that is not in the objects. They are safe for
// concurrent use.
type memories struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry // mu guards it and what it holds
}

// entry is the state of one Challenge.
type entry struct {
	uid    types.UID
	memory challenge.Memory
	// woken is set if an object that the Challenge waits for changed since its memory was
	// read.
	woken bool
	// place is the location of its answer.
	place string
	// secrets are the Secrets that its solver reads; issuer is the issuer that it refers
	// to.
	secrets []types.NamespacedName
	issuer  issuerKey
}

// issuerKey is the address of an Issuer, or of a ClusterIssuer if it has no
// namespace.
type issuerKey types.NamespacedName

func newMemories() *memories { return &memories{entries: map[types.NamespacedName]*entry{}} }

// of returns the memory of a Challenge. An object with the same name but another UID is
// another Challenge; gone is then the place of the former one.
func (m *memories) of(key types.NamespacedName, fresh entry, now time.Time) (memory challenge.Memory, gone string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.entries[key]
	if known == nil || known.uid != fresh.uid {
		if known != nil && known.place != fresh.place {
			gone = known.place
		}
		fresh.memory.Since = now
		known = &fresh
		m.entries[key] = known
	}
	if known.woken {
		known.woken, known.memory = false, known.memory.Woken(now)
	}
	return known.memory, gone
}

// put replaces the memory of a Challenge.
func (m *memories) put(key types.NamespacedName, uid types.UID, memory challenge.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.entries[key]; known != nil && known.uid == uid {
		known.memory = memory
	}
}

// forget removes a Challenge and returns its place.
func (m *memories) forget(key types.NamespacedName) (place string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.entries[key]
	delete(m.entries, key)
	if known == nil {
		return ""
	}
	return known.place
}

// wake returns the Challenges for which meant returns true. Their failed steps are tried
// again at once.
func (m *memories) wake(meant func(*entry) bool) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	var woken []types.NamespacedName
	for key, known := range m.entries {
		if meant(known) {
			known.woken = true
			woken = append(woken, key)
		}
	}
	return woken
}

func (e *entry) reads(secret types.NamespacedName) bool { return slices.Contains(e.secrets, secret) }
