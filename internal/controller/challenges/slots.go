package challenges

import (
	"sync"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/challenge"
)

// slots limit the number of Challenges in progress, and the number of answers in the same
// place. They are safe for concurrent use.
type slots struct {
	limit int
	clock clock.PassiveClock

	mu sync.Mutex // guards all below
	// granted is called for each Challenge that gets a slot after having waited
	// for it.
	granted func(types.NamespacedName)
	// busy Challenges have a slot; waiting ones are queued for one.
	busy, waiting map[types.NamespacedName]challenge.Candidate
	shares        challenge.Shares
	grants        uint64
	// places are the places of presented answers, with the time when each Challenge took
	// the place. A Challenge holds its place until it is cleaned up.
	places map[string]map[types.NamespacedName]time.Time
}

func newSlots(limit int, clock clock.PassiveClock) *slots {
	return &slots{
		limit: limit, clock: clock, granted: func(types.NamespacedName) {},
		busy: map[types.NamespacedName]challenge.Candidate{}, waiting: map[types.NamespacedName]challenge.Candidate{},
		shares: challenge.Shares{Busy: map[challenge.Tenant]int{}, Last: map[challenge.Tenant]uint64{}},
		places: map[string]map[types.NamespacedName]time.Time{},
	}
}

// notify sets the function that is called for each Challenge that gets a slot.
func (s *slots) notify(granted func(types.NamespacedName)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = granted
}

// seed records the places of Challenges that an earlier process presented.
func (s *slots) seed(presented []acmev1.Challenge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range presented {
		ch := &presented[i]
		place := challenge.PlaceOf(ch)
		if place.Limit == 0 || !challenge.HasFinalizer(ch) {
			continue
		}
		since := ch.CreationTimestamp.Time
		if ch.Status.PresentedAt != nil {
			since = ch.Status.PresentedAt.Time
		}
		s.hold(place.Name, client.ObjectKeyFromObject(ch), since)
	}
}

// take reports whether a Challenge has a slot. If not, it queues the Challenge for one.
func (s *slots) take(c challenge.Candidate) bool {
	s.mu.Lock()
	_, has := s.busy[c.Key]
	if before, known := s.waiting[c.Key]; known {
		c.Since = before.Since
	}
	var others []types.NamespacedName
	if !has {
		s.waiting[c.Key] = c
		others = s.grant()
		_, has = s.busy[c.Key]
	}
	s.mu.Unlock()
	s.tell(others, c.Key)
	return has
}

// release gives back the slot of a Challenge and removes it from the queue.
func (s *slots) release(key types.NamespacedName) {
	s.mu.Lock()
	s.remove(key)
	others := s.grant()
	s.mu.Unlock()
	s.tell(others, key)
}

// leave is like release, for a Challenge whose answer is no longer presented.
func (s *slots) leave(key types.NamespacedName, place string) {
	s.mu.Lock()
	if delete(s.places[place], key); len(s.places[place]) == 0 {
		delete(s.places, place)
	}
	s.mu.Unlock()
	s.release(key)
}

// has reports whether a Challenge has a slot.
func (s *slots) has(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.busy[key]
	return has
}

// remove removes a Challenge from the queue; the caller must hold mu.
func (s *slots) remove(key types.NamespacedName) {
	delete(s.waiting, key)
	c, has := s.busy[key]
	if !has {
		return
	}
	delete(s.busy, key)
	if s.shares.Busy[c.Tenant]--; s.shares.Busy[c.Tenant] == 0 {
		delete(s.shares.Busy, c.Tenant)
	}
	if len(s.busy)+len(s.waiting) == 0 { // nobody takes turns with anybody
		clear(s.shares.Last)
	}
}

// grant returns the Challenges that get the free slots; the caller must hold mu.
func (s *slots) grant() []types.NamespacedName {
	var granted []types.NamespacedName
	for len(s.busy) < s.limit {
		next, ok := challenge.Pick(s.waiting, s.shares, s.taken)
		if !ok {
			break
		}
		delete(s.waiting, next.Key)
		s.busy[next.Key] = next
		s.grants++
		s.shares.Busy[next.Tenant]++
		s.shares.Last[next.Tenant] = s.grants
		if next.Place.Limit > 0 {
			s.hold(next.Place.Name, next.Key, s.clock.Now())
		}
		granted = append(granted, next.Key)
	}
	return granted
}

// taken reports whether another Challenge holds the place of a candidate; the caller must
// hold mu.
func (s *slots) taken(c challenge.Candidate) bool {
	if c.Place.Limit == 0 {
		return false
	}
	holders, latest := 0, s.clock.Now().Add(-challenge.HoldTime)
	for key, since := range s.places[c.Place.Name] {
		if key != c.Key && since.After(latest) {
			holders++
		}
	}
	return holders >= c.Place.Limit
}

// hold records the Challenge that holds a place; the caller must hold mu.
func (s *slots) hold(place string, key types.NamespacedName, since time.Time) {
	if s.places[place] == nil {
		s.places[place] = map[types.NamespacedName]time.Time{}
	}
	if _, holds := s.places[place][key]; !holds {
		s.places[place][key] = since
	}
}

// tell wakes the Challenges that were granted a slot, except the one that the caller
// handles.
func (s *slots) tell(keys []types.NamespacedName, except types.NamespacedName) {
	s.mu.Lock()
	granted := s.granted
	s.mu.Unlock()
	for _, key := range keys {
		if key != except {
			granted(key)
		}
	}
}
