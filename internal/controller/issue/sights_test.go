package issue

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A look is skipped only if nothing has happened that the last one has not seen or
// done itself, in whatever order caches hear of it.
func TestSights(t *testing.T) {
	now := time.Now()
	key := types.NamespacedName{Namespace: "ns", Name: "web"}
	for _, tc := range []struct {
		reason   string
		during   func(*sights) // the look
		after    func(*sights)
		versions []string
		at       time.Duration
		want     novelty
	}{
		{reason: "its own writes", versions: []string{"2", "request", "key"}, want: isSeen},
		{reason: "not all caches have them", versions: []string{"2", "request"}, want: isSeen},
		{reason: "the cache has the Certificate of before", versions: []string{"1", "request"}, want: isLate},
		{reason: "the Certificate has changed", versions: []string{"3", "request"}, want: isNew},
		{reason: "the request has changed", versions: []string{"2", "answered"}, want: isNew},
		{reason: "the request has changed, and the Certificate is late", versions: []string{"1", "answered"}, want: isLate},
		{reason: "its own Secret", after: func(s *sights) { s.reported(key, "secret") }, versions: []string{"2"}, want: isSeen},
		{reason: "its own Secret, heard of during the look", during: func(s *sights) { s.reported(key, "secret") }, versions: []string{"2"}, want: isSeen},
		{reason: "another Secret during the look", during: func(s *sights) { s.reported(key, "password") }, versions: []string{"2"}, want: isNew},
		{reason: "another Secret, then its own", after: func(s *sights) { s.reported(key, "password"); s.reported(key, "secret") }, versions: []string{"2"}, want: isNew},
		{reason: "its own deletion", after: func(s *sights) { s.lost(key, "key-uid") }, versions: []string{"2"}, want: isSeen},
		{reason: "another deletion", after: func(s *sights) { s.lost(key, "request-uid") }, versions: []string{"2"}, want: isNew},
		{reason: "disturbed during the look", during: func(s *sights) { s.disturb(key) }, versions: []string{"2"}, want: isNew},
		{reason: "time has come", versions: []string{"2"}, at: time.Hour, want: isNew},
		{reason: "forgotten", after: func(s *sights) { s.forgetAll() }, versions: []string{"2"}, want: isNew},
		{reason: "many Secrets", after: func(s *sights) {
			for range 2 * maxVersions {
				s.reported(key, "secret")
			}
		}, versions: []string{"2"}, want: isNew},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := &sights{all: map[types.NamespacedName]*sight{}}
			if got, _ := s.judge(key, tc.versions, now); got != isNew {
				t.Errorf("before the first look: %v", got)
			}
			s.begin(key, []string{"1"})
			if tc.during != nil {
				tc.during(s)
			}
			for _, written := range []string{"request", "key", "secret", "2"} {
				s.saw(key, written)
			}
			s.deletes(key, "key-uid")
			s.end(key, "2", now.Add(time.Hour), true)
			if tc.after != nil {
				tc.after(s)
			}
			got, next := s.judge(key, tc.versions, now.Add(tc.at))
			if got != tc.want || got == isSeen && (next.RequeueAfter != time.Hour || next.Priority == nil || *next.Priority != 0) {
				t.Errorf("%v, next %+v, want %v", got, next, tc.want)
			}
			for range maxLate {
				s.judge(key, tc.versions, now.Add(tc.at))
			}
			if got, _ := s.judge(key, tc.versions, now.Add(tc.at)); got == isLate {
				t.Error("waits forever for a cache")
			}
		})
	}
}

// A look that has not ended, or has failed, is repeated, and not too many are
// remembered.
func TestSightsEnd(t *testing.T) {
	s := &sights{all: map[types.NamespacedName]*sight{}}
	for i := range 3 * maxSights {
		key := types.NamespacedName{Name: fmt.Sprint(i)}
		s.begin(key, []string{"1"})
		if got, _ := s.judge(key, []string{"1"}, time.Now()); got != isNew {
			t.Fatalf("before its end: %v", got)
		}
		s.end(key, "1", time.Time{}, false)
		if got, _ := s.judge(key, []string{"1"}, time.Now()); got != isSeen {
			t.Fatalf("after its end: %v", got)
		}
		if len(s.all) > maxSights {
			t.Fatalf("%d are remembered", len(s.all))
		}
	}
}
