package storespace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// fake is a store whose file can be made smaller unless keeps is set.
type fake struct {
	Reading
	keeps    bool
	disarmed bool
	failure  error // of Read
}

func (f *fake) Read(context.Context) (Reading, error)      { return f.Reading, f.failure }
func (f *fake) Compact(_ context.Context, rev int64) error { return nil }
func (f *fake) Disarm(context.Context) error {
	f.Full, f.disarmed = false, true
	return nil
}

func (f *fake) Reclaim(context.Context) error {
	if f.keeps {
		return errors.ErrUnsupported
	}
	f.Size = f.InUse
	return nil
}

func newSpace(t *testing.T, store Store) *Space {
	t.Helper()
	s, err := New(Config{Store: store, Quota: 64 * mib, PercentPerTenant: 25})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A store that etcd refuses to write becomes writable again as soon as
// possible.
func TestSpaceRecovers(t *testing.T) {
	store := &fake{Reading: full80(of(80, 20))}
	s := newSpace(t, store)
	if store.Full || store.Size != 20*mib || s.Check() != nil {
		t.Errorf("after the start: %+v, %v", store, s.Check())
	}
	store.Reading = full80(of(80, 78))
	if err := s.tend(t.Context()); err != nil || s.Check() == nil || !store.Full {
		t.Errorf("nothing was deleted: %v, check %v", err, s.Check())
	}
	store.InUse = 10 * mib
	for range 2 {
		if err := s.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if store.Full || s.Check() != nil {
		t.Errorf("after deleting: %+v, %v", store, s.Check())
	}
}

// Only the operator of an external etcd may make its file smaller.
func TestSpaceOfOthers(t *testing.T) {
	store := &fake{Reading: full80(of(80, 20)), keeps: true}
	s := newSpace(t, store)
	if store.disarmed {
		t.Error("etcd is to write into a file that has no room")
	}
	store.Size = 20 * mib
	if err := s.tend(t.Context()); err != nil || store.Full {
		t.Errorf("its operator has made it smaller: %v, %+v", err, store)
	}
}

// Tenants are held to their share when half of the quota is in use. What they
// have is known from a count and from what was written since.
func TestShares(t *testing.T) {
	store := &fake{Reading: of(10, 10)}
	s := newSpace(t, store)
	a, b := fairshare.Tenant{Class: "namespace", Name: "a"}, fairshare.Tenant{Class: "namespace", Name: "b"}
	s.usage.end(map[fairshare.Tenant]int64{a: 15 * mib, b: 2 * mib})
	refused := func(w Write) bool {
		var refusal *Refusal
		err := s.Allow(t.Context(), w)
		return errors.As(err, &refusal) && refusal.Tenant != nil && *refusal.Tenant == w.Owner
	}
	large := Write{Owner: a, New: 2 * mib}
	if refused(large) {
		t.Error("there is room for all")
	}
	store.Reading = of(40, 40)
	if err := s.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !refused(large) {
		t.Error("a has 15 of 16 MiB, and gets 2 more")
	}
	privileged := large
	privileged.Privileged = true
	for reason, w := range map[string]Write{
		"another tenant":                   {Owner: b, New: 2 * mib},
		"what is nobody's":                 {New: 2 * mib},
		"an administrator":                 privileged,
		"what fits":                        {Owner: a, New: mib / 2},
		"what is there already, as it was": {Owner: a, Old: 2 * mib, New: 2 * mib},
	} {
		if refused(w) {
			t.Errorf("%s is refused", reason)
		}
	}
	s.Wrote(Write{Owner: a, New: mib}) // all that it may have
	decision := Write{Owner: a, Old: 2 << 10, New: 10 << 10}
	if !refused(decision) {
		t.Error("a has its share, and a request grows")
	}
	if decision.Denial = true; refused(decision) {
		t.Error("a denial is refused")
	}
	if decision.New = mib; !refused(decision) {
		t.Error("a denial makes a request as large as it likes")
	}
	if decision.Revocation = true; refused(decision) {
		t.Error("a revocation is refused")
	}
	s.Wrote(Write{Owner: a, Old: 6 * mib}) // deleted
	if refused(large) {
		t.Error("a has 10 of 16 MiB, and does not get 2 more")
	}
	s.usage.begin()
	s.Wrote(Write{Owner: a, New: 6 * mib})
	s.usage.end(map[fairshare.Tenant]int64{a: 9 * mib})
	if got, _ := s.usage.of(a); got != 15*mib {
		t.Errorf("a has %d MiB, want 9 counted and 6 written while counting", got/mib)
	}
}

// Tenants of a class in which there can be any number have a share together. Those of other
// classes are not held to it.
func TestShareOfClass(t *testing.T) {
	store := &fake{Reading: of(40, 40)}
	s, err := New(Config{Store: store, Quota: 64 * mib, PercentPerTenant: 25, PercentPerClass: map[string]int{"node": 50}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	node := func(i int) fairshare.Tenant { return fairshare.Tenant{Class: "node", Name: fmt.Sprint(i)} }
	counted := map[fairshare.Tenant]int64{}
	for i := range 30 {
		counted[node(i)] = mib
	}
	s.usage.end(counted)
	s.Wrote(Write{Owner: node(30), New: mib})
	large := Write{Owner: node(31), New: 2 * mib}
	var refusal *Refusal
	if err := s.Allow(t.Context(), large); !errors.As(err, &refusal) || refusal.Tenant == nil || *refusal.Tenant != (fairshare.Tenant{Class: "node"}) || refusal.InUse != 31*mib {
		t.Errorf("31 nodes have 31 of 32 MiB, and another gets 2 more: %+v, %v", refusal, err)
	}
	if err := s.Allow(t.Context(), Write{Owner: fairshare.Tenant{Class: "namespace", Name: "a"}, New: 2 * mib}); err != nil {
		t.Errorf("a namespace: %v", err)
	}
	if most := s.usage.largest(1); most[0].tenant.Name == "" {
		t.Errorf("all nodes are shown as one tenant")
	}
	s.Wrote(Write{Owner: node(3), Old: mib}) // deleted
	s.Wrote(Write{Owner: node(4), Old: mib})
	if err := s.Allow(t.Context(), large); err != nil {
		t.Errorf("after two were deleted: %v", err)
	}
}

// Bytes that were written since the last reading are in use, too.
func TestWrittenCounts(t *testing.T) {
	store := &fake{Reading: of(50, 50)}
	s := newSpace(t, store)
	s.at = s.at.Add(lookEvery) // no new reading meanwhile
	for range 20 {
		s.Wrote(Write{New: mib})
	}
	if got := levelOf(s.now(), s.cfg.Quota); got != full {
		t.Errorf("level %d, want full", got)
	}
	if len(s.wake) != 1 {
		t.Error("nobody is woken to look")
	}
}

// In a store that is almost full, objects that a tenant writes again and again
// do not take the room of others.
func TestRewriting(t *testing.T) {
	store := &fake{Reading: of(58, 58)}
	s := newSpace(t, store)
	a, b := fairshare.Tenant{Class: "namespace", Name: "a"}, fairshare.Tenant{Class: "namespace", Name: "b"}
	again := Write{Owner: a, Old: 900 << 10, New: 900 << 10}
	refused := func(w Write) bool {
		var refusal *Refusal
		return errors.As(s.Allow(t.Context(), w), &refusal) && refusal.Again
	}
	if refused(again) {
		t.Error("it is the first time")
	}
	s.Wrote(again)
	s.Wrote(again)
	if !refused(again) {
		t.Error("there is no end to it")
	}
	other, heartbeat, privileged := again, Write{Owner: a, Old: 1 << 10, New: 1 << 10}, again
	other.Owner, privileged.Privileged = b, true
	for reason, w := range map[string]Write{"another tenant": other, "a heartbeat": heartbeat, "an administrator": privileged} {
		if refused(w) {
			t.Errorf("%s is refused", reason)
		}
	}
	for range 2 { // the past is that of the reading before
		store.Revision++
		if err := s.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if refused(again) {
		t.Error("its past is removed")
	}

	// What was written since the reading before stays in the past of watches.
	s.Wrote(again)
	s.Wrote(again)
	if !refused(again) {
		t.Error("there is no end to it the second time")
	}
	store.failure = errors.New("etcd does not answer")
	if err := s.tend(t.Context()); err == nil {
		t.Error("the store could be read")
	}
	store.failure = nil
	for _, removed := range []bool{false, true} {
		store.Revision++
		if err := s.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if refused(again) == removed {
			t.Errorf("its past is removed: %v, but it is refused: %v", removed, !removed)
		}
	}
}

// The log warns before the disk is full, and not with each reading.
func TestDiskFillsUp(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx := klog.NewContext(t.Context(), logger)
	store := &fake{Reading: of(20, 10)}
	s := newSpace(t, store)
	for _, free := range []int64{1024 * mib, 300 * mib, 200 * mib} {
		store.DiskFree = &free
		if err := s.tend(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "The disk of the data directory is filling up") || !strings.Contains(lines[0], `"freeMiB"=300`) {
		t.Errorf("the log has %q", lines)
	}
}
