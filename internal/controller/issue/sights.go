package issue

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxSights is the maximum number of remembered Certificates. If it is exceeded, all are
// forgotten, which costs one more reconciliation of each.
const maxSights = 2000

// sights remember what the last passes over Certificates read and wrote. Most changes that
// wake a Certificate were made by its own last pass, and need no further pass. It is safe
// for concurrent use.
type sights struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*sight
}

// sight is the last observed state of one Certificate.
type sight struct {
	// known are the resource versions that were seen or written, of all objects that belong
	// to the Certificate; latest is the version of the Certificate itself.
	known  []string
	latest string
	// deleted are the UIDs of objects that were deleted.
	deleted []types.UID
	// secrets are versions of its Secrets that were reported since the pass began;
	// disturbed is set if another event arrived.
	secrets   []string
	disturbed bool
	// ended is set when the pass ended without an error; again is the latest time of the
	// next pass, zero if the next pass waits for a change; isCalm is set if no certificate
	// is being issued.
	ended, isCalm bool
	again         time.Time
	// late counts how often the cache was outdated.
	late int
}

// maxLate is how often a pass waits for an outdated cache. Caches need far fewer waits;
// after that many, the pass runs anyway, which costs at most a conflict.
const maxLate = 20

// novelty is the comparison of a Certificate with its last pass.
type novelty int

const (
	isNew  novelty = iota
	isSeen         // nothing has changed that the last look has not seen or made
	isLate         // the cache does not have the Certificate yet that the last look has written
)

// judge reports whether objects with these versions are new, outdated or already seen. The
// first version is the Certificate's. If they are already seen, next is when to reconcile
// again.
func (s *sights) judge(key types.NamespacedName, versions []string, now time.Time) (what novelty, next reconcile.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.all[key]
	if last == nil || !last.ended {
		return isNew, reconcile.Result{}
	}
	isKnown := func(version string) bool { return slices.Contains(last.known, version) }
	if versions[0] != last.latest && isKnown(versions[0]) && last.late < maxLate {
		last.late++
		return isLate, reconcile.Result{}
	}
	if last.disturbed || !last.again.IsZero() && !now.Before(last.again) ||
		versions[0] != last.latest || !allOf(versions, isKnown) || !allOf(last.secrets, isKnown) {
		return isNew, reconcile.Result{}
	}
	last.secrets = nil
	return isSeen, lookAgain(last.again, now, last.isCalm)
}

func allOf(all []string, is func(string) bool) bool {
	return !slices.ContainsFunc(all, func(one string) bool { return !is(one) })
}

// lookAgain returns when the next look is; never if at is zero. The renewal of a
// certificate does not wait for all that is new then, so it does not keep the place of
// the last look.
func lookAgain(at, now time.Time, isCalm bool) reconcile.Result {
	next := reconcile.Result{RequeueAfter: remaining(at, now)}
	if isCalm {
		next.Priority = ptr.To(0)
	}
	return next
}

// begin begins a pass over objects with these versions.
func (s *sights) begin(key types.NamespacedName, versions []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxSights {
		clear(s.all)
	}
	s.all[key] = &sight{known: slices.Clone(versions)}
}

// end ends it: again is when to look again at the latest.
func (s *sights) end(key types.NamespacedName, latest string, again time.Time, isCalm bool) {
	s.change(key, func(last *sight) { last.latest, last.ended, last.again, last.isCalm = latest, true, again, isCalm })
}

// saw adds a version that a look has seen or written.
func (s *sights) saw(key types.NamespacedName, version string) {
	s.change(key, func(last *sight) { last.known = append(last.known, version) })
}

// deletes adds an object that a pass is about to delete.
func (s *sights) deletes(key types.NamespacedName, object types.UID) {
	s.change(key, func(last *sight) { last.deleted = append(last.deleted, object) })
}

// disturb ensures that the next pass runs even without new versions.
func (s *sights) disturb(key types.NamespacedName) {
	s.change(key, func(last *sight) { last.disturbed = true })
}

// lost is disturb, because an object was deleted, unless the last look did that.
func (s *sights) lost(key types.NamespacedName, object types.UID) {
	s.change(key, func(last *sight) { last.disturbed = last.disturbed || !slices.Contains(last.deleted, object) })
}

// maxVersions is the maximum number of versions of Secrets that are kept between two
// passes.
const maxVersions = 10

// reported adds a version of a Secret that was reported.
func (s *sights) reported(key types.NamespacedName, version string) {
	s.change(key, func(last *sight) {
		if len(last.secrets) >= maxVersions {
			last.disturbed = true
			return
		}
		last.secrets = append(last.secrets, version)
	})
}

// forget forgets a Certificate.
func (s *sights) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// forgetAll forgets all Certificates.
func (s *sights) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.all)
}

func (s *sights) change(key types.NamespacedName, change func(*sight)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.all[key]; last != nil {
		change(last)
	}
}
