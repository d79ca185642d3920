package resolver

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// maxEntries is how many answers a cache holds. Requesters choose the names.
	maxEntries = 4096
	// maxAge is how long an answer is used at most, whatever its TTL.
	maxAge = time.Hour
)

// cache holds answers until their TTLs end. It is safe for concurrent use.
type cache[T any] struct {
	clock clock.PassiveClock

	mu      sync.Mutex // guards entries
	entries map[string]entry[T]
}

type entry[T any] struct {
	value T
	until time.Time
}

func newCache[T any](clock clock.PassiveClock) *cache[T] {
	return &cache[T]{clock: clock, entries: map[string]entry[T]{}}
}

func (c *cache[T]) get(name string) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.entries[name]
	if !ok || !c.clock.Now().Before(found.until) {
		return value, false
	}
	return found.value, true
}

// put keeps a value for some seconds. A full cache loses what is too old; if
// nothing is, it starts again.
func (c *cache[T]) put(name string, value T, ttl uint32) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= maxEntries {
		for name, old := range c.entries {
			if !now.Before(old.until) {
				delete(c.entries, name)
			}
		}
	}
	if len(c.entries) >= maxEntries {
		clear(c.entries)
	}
	c.entries[name] = entry[T]{value: value, until: now.Add(min(time.Duration(ttl)*time.Second, maxAge))}
}
