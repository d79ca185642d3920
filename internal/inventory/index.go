package inventory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// Index finds records by the part of them that is in memory: the filters of packs, and the
// records outside packs. The fields that are functions connect it to the place where the
// records are stored. It is safe for concurrent use.
type Index struct {
	now func() time.Time
	// keep is how long a record is kept after the end of its certificate.
	keep time.Duration
	// awaitRead returns once the index has all that was stored before the call.
	awaitRead func(context.Context) error
	// readPack returns a pack, which callers must not change; an empty one if it was deleted.
	readPack func(context.Context, *packInfo) (*pack, error)
	// revocationOf returns the revocation of a record's certificate, and revokedDays the days
	// on which revoked certificates end.
	revocationOf func(record string) *inventoryv1alpha1.RevocationFacts
	revokedDays  func() map[int64]bool
	metrics      *recordMetrics

	mu sync.RWMutex
	// days holds the records and packs of each day.
	days map[int64]*day
	// seen is the revision of the store up to which days is complete.
	seen int64
}

// day has the records of certificates that end on one day.
type day struct {
	fresh map[string]*freshRecord // by name
	packs map[int64]*packInfo     // by number
	// packed is how many records are in packs, denials how many of all are of denials.
	packed, denials int
}

// freshRecord is a record that is in no pack yet.
type freshRecord struct {
	key string
	// record has the revision at which it was written. It must not be modified.
	record   *inventoryv1alpha1.IssuedCertificate
	size     int // in the store, in bytes
	revision int64
}

// packInfo is the part of a pack that is kept in memory.
type packInfo struct {
	number   int64
	key      string
	revision int64
	count    int
	filter   filter
	// newest is when the latest of the records was issued, in seconds since 1970; 0 if that
	// is not known.
	newest int64
	// omits is true if a record leaves out names.
	omits bool
	// terms is the version of the terms in the filter.
	terms int
	// denials is how many records are of denials.
	denials int
	// size is about how many bytes a CertificatePack takes.
	size int64
	// kept has a weak pointer to the pack that was read last.
	kept atomic.Value
}

func byNumber(a, b *packInfo) int { return cmp.Compare(a.number, b.number) }

// day returns the records of a day, for changes. The caller holds x.mu.
func (x *Index) day(number int64) *day {
	d := x.days[number]
	if d == nil {
		d = &day{fresh: map[string]*freshRecord{}, packs: map[int64]*packInfo{}}
		x.days[number] = d
	}
	return d
}

// tidy removes a day without records. The caller holds x.mu.
func (x *Index) tidy(number int64) {
	if d := x.days[number]; len(d.fresh) == 0 && len(d.packs) == 0 {
		delete(x.days, number)
	}
}

// daysBetween returns the days with records from one day to another, in order.
func (x *Index) daysBetween(from, to int64) []int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(x.days)), func(number int64) bool { return number < from || number > to })
}

// on returns the packs of a day and its records outside packs.
func (x *Index) on(number int64) (packs []*packInfo, outside []*freshRecord) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if d := x.days[number]; d != nil {
		packs, outside = slices.Collect(maps.Values(d.packs)), slices.Collect(maps.Values(d.fresh))
	}
	return packs, outside
}
