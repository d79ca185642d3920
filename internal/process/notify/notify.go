// Package notify calls subscribers when something changes.
package notify

import (
	"maps"
	"slices"
	"sync"
)

// List calls its subscribers at each change, in the order in which they have
// subscribed. The zero value has none. It is safe for concurrent use.
type List[T any] struct {
	mu          sync.Mutex // guards all below
	subscribers map[int]func(T)
	last        int // the number of the latest subscriber
}

// Subscribe registers changed, which is called at each change from now on. It
// must return quickly. cancel ends that, except for a call that is under way.
func (l *List[T]) Subscribe(changed func(T)) (cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribers == nil {
		l.subscribers = map[int]func(T){}
	}
	l.last++
	number := l.last
	l.subscribers[number] = changed
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subscribers, number)
	}
}

// Tell calls all subscribers. They may subscribe and cancel during the call.
func (l *List[T]) Tell(change T) {
	l.mu.Lock()
	var subscribers []func(T)
	for _, number := range slices.Sorted(maps.Keys(l.subscribers)) {
		subscribers = append(subscribers, l.subscribers[number])
	}
	l.mu.Unlock()
	for _, changed := range subscribers {
		changed(change)
	}
}
