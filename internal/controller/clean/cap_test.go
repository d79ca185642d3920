package clean

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/retention"
)

// crowd returns pending requests of one requester, the oldest first.
func crowd(n int, age time.Duration) []client.Object {
	var all []client.Object
	for i := range n {
		all = append(all, newCSR(fmt.Sprintf("crowd-%03d", i), age+time.Duration(n-i)*time.Second))
	}
	return all
}

func TestCap(t *testing.T) {
	other := newCSR("other", 20*time.Hour)
	other.Spec.Username = "other"
	f := newFixture(t, append(crowd(8, time.Hour), other)...)
	f.settings.PerRequester.Max = 5
	if result, err := f.count("requester"); err != nil || result != (reconcile.Result{}) {
		t.Errorf("result %+v, %v", result, err)
	}
	for name, want := range map[string]bool{"crowd-000": false, "crowd-002": false, "crowd-003": true, "crowd-007": true, "other": true} {
		if f.exists(name) != want {
			t.Errorf("%s exists: %v", name, !want)
		}
	}
	if f.deletes.Load() != 3 || f.deleted("excess") != 3 {
		t.Errorf("%d deletes, %v counted", f.deletes.Load(), f.deleted("excess"))
	}
	if got, want := f.told(), "Warning TooManyRequests requester has 8 requests, more than 5: the oldest are deleted, with or without an outcome"; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	if _, err := f.count("other"); err != nil || !f.exists("other") {
		t.Errorf("the other: %v", err)
	}
}

// A few large requests are too many, too. Each counts with its current size.
func TestCapOfBytes(t *testing.T) {
	f := newFixture(t, crowd(4, time.Hour)...)
	f.settings.PerRequester.MaxMiB = 1
	if _, err := f.count("requester"); err != nil || f.deletes.Load() != 0 {
		t.Fatalf("%v after %d deletes of small requests", err, f.deletes.Load())
	}
	for i := range 4 {
		c := &csr{}
		if err := f.api.Get(t.Context(), client.ObjectKey{Name: fmt.Sprintf("crowd-%03d", i)}, c); err != nil {
			t.Fatal(err)
		}
		c.Annotations = map[string]string{"large": strings.Repeat("x", 400<<10)}
		if err := f.api.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		f.quota.schedule().Update(t.Context(), event.UpdateEvent{ObjectOld: c, ObjectNew: c}, recorded{added: map[string]time.Duration{}})
	}
	if _, err := f.count("requester"); err != nil || f.exists("crowd-000") || f.exists("crowd-001") || !f.exists("crowd-002") {
		t.Errorf("%v after %d deletes, want the two oldest gone", err, f.deletes.Load())
	}
	if got, want := f.told(), "Warning TooManyRequests requester has requests of 1600 KiB, more than 1024 KiB: the oldest are deleted, with or without an outcome"; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}

// Requests that are too new to be deleted are counted again when they are not.
func TestCapSparesNewRequests(t *testing.T) {
	f := newFixture(t, crowd(8, 0)...)
	f.settings.PerRequester.Max = 5
	if result, err := f.count("requester"); err != nil || result.RequeueAfter != 5*time.Minute || f.deletes.Load() != 0 {
		t.Errorf("result %+v, %v after %d deletes", result, err, f.deletes.Load())
	}
	f.clock.SetTime(now.Add(5 * time.Minute))
	if result, err := f.count("requester"); err != nil || result != (reconcile.Result{}) || f.deletes.Load() != 3 {
		t.Errorf("result %+v, %v after %d deletes", result, err, f.deletes.Load())
	}
}

// A client that loops is reported from time to time, not for each request.
func TestCapTellsNowAndThen(t *testing.T) {
	f := newFixture(t, crowd(9, time.Hour)...)
	f.settings.PerRequester.Max = 5
	f.failure = errors.New("no")
	for range 3 {
		if _, err := f.count("requester"); err == nil {
			t.Error("failed deletes went unnoticed")
		}
	}
	if f.deletes.Load() != 12 {
		t.Errorf("%d deletes: a failed one must not stop the others", f.deletes.Load())
	}
	if f.told() == "" || f.told() != "" {
		t.Error("not told once")
	}
	f.clock.SetTime(now.Add(tellEvery))
	f.count("requester")
	if f.told() == "" {
		t.Error("not told again")
	}
}

func TestScheduleOfCap(t *testing.T) {
	r := &quota{index: newRequesterIndex([]string{"system:masters"})}
	by := func(name, requester string, groups ...string) *csr {
		c := newCSR(name, 0)
		c.UID, c.Spec.Username, c.Spec.Groups = types.UID(name+" of "+requester), requester, groups
		return c
	}
	q := recorded{added: map[string]time.Duration{}}
	schedule := r.schedule()
	for _, c := range []*csr{by("a", "alice"), by("b", "alice"), by("c", "admin", "x", "system:masters")} {
		schedule.Create(t.Context(), event.CreateEvent{Object: c}, q)
	}
	schedule.Update(t.Context(), event.UpdateEvent{ObjectOld: by("b", "alice"), ObjectNew: by("b", "alice")}, q)
	if len(q.added) != 1 || q.added["alice"] != pause {
		t.Errorf("scheduled: %v", q.added)
	}
	check := func(requester string, want ...string) {
		t.Helper()
		got := r.index.over(retention.Cap{MaxBytes: 1}, requester)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the index has %v of %s, want %v", got, requester, want)
		}
	}
	check("alice", "a", "b")
	check("admin")
	if r.index.over(retention.Cap{Max: 2}, "alice") != nil || len(r.index.over(retention.Cap{Max: 1}, "alice")) != 2 {
		t.Error("two are more than two, or not more than one")
	}
	schedule.Update(t.Context(), event.UpdateEvent{ObjectOld: by("b", "alice"), ObjectNew: by("b", "bob")}, q)
	check("alice", "a")
	check("bob", "b")
	schedule.Delete(t.Context(), event.DeleteEvent{Object: by("a", "alice")}, q)
	check("alice")
	if len(r.index.requesters) != 1 {
		t.Errorf("the index remembers who has no requests: %v", r.index.requesters)
	}
}

func TestSettings(t *testing.T) {
	if err := DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Settings){
		"cleaning.denied: -1s is negative: 0s means no limit":                  func(s *Settings) { s.Denied.Duration = -time.Second },
		"cleaning.podRequests.maxMiBPerNode: -1 is negative: 0 means no limit": func(s *Settings) { s.PodRequests.MaxMiBPerNode = -1 },
		"cleaning.perRequester.max: -1 is negative: 0 means no limit":          func(s *Settings) { s.PerRequester.Max = -1 },
	} {
		s := DefaultSettings()
		change(&s)
		if err := s.Validate(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
