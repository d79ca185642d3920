package storespace

import (
	"testing"
	"time"
)

const mib = 1 << 20

// of is how full a store is whose quota is 64 MiB and whose reserve is 16 MiB.
func of(size, inUse int64) Reading {
	return Reading{Size: size * mib, InUse: inUse * mib, Limit: 80 * mib, Revision: 100}
}

func full80(r Reading) Reading { r.Full = true; return r }

func TestLevel(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		reading Reading
		want    level
	}{
		{"empty", of(0, 0), roomy},
		{"a large file that holds little", of(75, 10), roomy},
		{"half of it", of(32, 32), scarce},
		{"one less than tight", of(55, 55), scarce},
		{"all but one", of(63, 63), tight},
		{"all of it", of(64, 64), full},
		{"half of the reserve", of(72, 72), critical},
		{"a file that etcd is about to refuse", of(76, 10), critical},
		{"etcd refuses", full80(of(70, 10)), critical},
	} {
		if got := levelOf(tt.reading, 64*mib); got != tt.want {
			t.Errorf("%s: level %d, want %d", tt.reason, got, tt.want)
		}
	}
}

func TestAllowedAt(t *testing.T) {
	const kib = 1 << 10
	for _, tt := range []struct {
		reason string
		write  Write
		upTo   level // the last one that allows it
	}{
		{"a new object", Write{New: kib}, tight},
		{"a new object of the server itself", Write{New: kib, Privileged: true}, critical},
		{"a new object of an administrator", Write{New: kib, Privileged: true, Administrator: true}, full},
		{"a Revocation", Write{New: 10 * kib, Revocation: true}, full},
		{"a small object of an administrator again", Write{Old: kib, New: kib, Privileged: true, Administrator: true}, critical},
		{"an object of an administrator that is being deleted", Write{Old: 900 * kib, New: 901 * kib, Deleting: true, Privileged: true, Administrator: true}, critical},
		{"an event of the server itself", Write{New: kib, Privileged: true, Dispensable: true}, tight},
		{"a heartbeat", Write{Old: kib, New: kib}, critical},
		{"a heartbeat that is a little longer", Write{Old: kib, New: kib + 20}, full},
		{"an object that grows", Write{Old: kib, New: 3 * kib}, tight},
		{"a large object again", Write{Old: 900 * kib, New: 900 * kib}, full},
		{"a large object that becomes small", Write{Old: 900 * kib, New: kib}, critical},
		{"an object that is being deleted", Write{Old: 900 * kib, New: 901 * kib, Deleting: true}, critical},
	} {
		for l := roomy; l <= critical; l++ {
			if got, want := tt.write.allowedAt(l), l <= tt.upTo; got != want {
				t.Errorf("%s: allowed at level %d: %v, want %v", tt.reason, l, got, want)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	just, long := now.Add(-time.Minute), now.Add(-time.Hour)
	for _, tt := range []struct {
		reason  string
		reading Reading
		history history
		want    plan
	}{
		{"nothing to do", of(20, 20), history{lean: 20 * mib, past: 90}, plan{}},
		{"grown", of(30, 25), history{lean: 20 * mib, past: 90}, plan{compact: 90}},
		{"grown, but there is no past", of(30, 25), history{lean: 20 * mib, past: 90, compacted: 90}, plan{}},
		{"nobody knows whether it has grown", of(30, 25), history{past: 90}, plan{}},
		{"almost full, and something did not fit", of(63, 63), history{past: 90, pressed: true}, plan{compact: 90}},
		{"full", of(66, 66), history{past: 90}, plan{compact: 90}},
		{"a file near etcd's limit", of(77, 20), history{past: 90, reclaimed: long}, plan{compact: 90, reclaim: true}},
		{"not so soon again", of(77, 60), history{past: 90, reclaimed: just}, plan{compact: 90}},
		{"soon again, as it is mostly holes", of(77, 20), history{past: 90, reclaimed: just}, plan{compact: 90, reclaim: true}},
		{"not for so little", of(77, 70), history{past: 90, reclaimed: long}, plan{compact: 90}},
		{"etcd refuses", full80(of(80, 20)), history{past: 90, reclaimed: just}, plan{compact: 90, reclaim: true, disarm: true}},
		{"etcd refuses, and nothing was deleted", full80(of(80, 78)), history{past: 90}, plan{compact: 90}},
		{"etcd refuses, and somebody has made the file smaller", full80(of(20, 20)), history{past: 90, compacted: 90}, plan{disarm: true}},
	} {
		if got := decide(tt.reading, 64*mib, tt.history, now); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.reason, got, tt.want)
		}
	}
}
