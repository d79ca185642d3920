// Package keylock has a lock for each key.
package keylock

import (
	"context"
	"sync"
)

// Locks are locks of keys. The zero value is ready for use.
type Locks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the lock is released
}

// Lock waits until the lock of a key is free, or ctx ends.
func (l *Locks) Lock(ctx context.Context, key string) (release func(), err error) {
	for {
		l.mu.Lock()
		other, busy := l.held[key]
		if !busy {
			break
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-other:
		}
	}
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	l.held[key] = done
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, key)
		close(done)
	}, nil
}
