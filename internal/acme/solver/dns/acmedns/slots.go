package acmedns

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
)

const (
	// kept is how many values a server keeps for a name. One more replaces the
	// oldest.
	kept = 2
	// slotLifetime is after which time a value no longer counts as used, even if
	// it was not cleaned up.
	slotLifetime = time.Hour
	// slotWait is when to ask for a place again.
	slotWait = 15 * time.Second
)

// Slots keeps challenges from replacing each other's values: a server keeps two
// values of a name. All providers of a process should share one.
type Slots struct {
	mu    sync.Mutex
	names map[string]*slot // guarded by mu
}

// slot is the use of one name.
type slot struct {
	// busy is held while a value is written: the server's order of writes must be
	// the one of values.
	busy   chan struct{}
	users  int    // calls that have the slot; guarded by Slots.mu
	values []held // guarded by Slots.mu; oldest write first
}

type held struct {
	value string
	at    time.Time
}

// NewSlots returns unused slots.
func NewSlots() *Slots {
	return &Slots{names: map[string]*slot{}}
}

// present writes a value once there is place for it, and remembers it.
func (s *Slots) present(ctx context.Context, name, value string, now func() time.Time, write func() error) error {
	slot := s.acquire(name, now())
	defer s.put(slot)
	select {
	case slot.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-slot.busy }()
	switch s.decide(slot, value) {
	case full:
		return &provider.TemporaryError{RetryAfter: slotWait, Err: errors.New("acme-dns keeps two values for a name, and two other challenges are using them: waiting for one of these to end")}
	case there:
		return nil
	}
	if err := write(); err != nil {
		return err
	}
	s.wrote(slot, value, now())
	return nil
}

type decision int

const (
	write decision = iota
	there
	full
)

// decide returns whether a value can be written. An existing value is written again, in
// case the server has lost it, but only if that replaces the value itself: it must be the
// only or the oldest one.
func (s *Slots) decide(slot *slot, value string) decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := slices.IndexFunc(slot.values, func(h held) bool { return h.value == value })
	switch {
	case index > 0:
		return there
	case index < 0 && len(slot.values) >= kept:
		return full
	}
	return write
}

// acquire returns the slot of a name, and forgets all values that are too old.
func (s *Slots) acquire(name string, now time.Time) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, slot := range s.names {
		slot.values = slices.DeleteFunc(slot.values, func(h held) bool { return now.Sub(h.at) >= slotLifetime })
		if len(slot.values) == 0 && slot.users == 0 {
			delete(s.names, other)
		}
	}
	if s.names[name] == nil {
		s.names[name] = &slot{busy: make(chan struct{}, 1)}
	}
	s.names[name].users++
	return s.names[name]
}

func (s *Slots) put(slot *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot.users--
}

func (s *Slots) wrote(slot *slot, value string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot.values = slices.DeleteFunc(slot.values, func(h held) bool { return h.value == value })
	slot.values = append(slot.values, held{value: value, at: now})
}

// release forgets a value.
func (s *Slots) release(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.names[name]; slot != nil {
		slot.values = slices.DeleteFunc(slot.values, func(h held) bool { return h.value == value })
	}
}
