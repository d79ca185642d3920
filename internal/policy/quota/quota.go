// Package quota counts the approvals of requests in sliding windows.
//
// A Ledger stores the time of each approval, so that a quota is exact: no window of its
// length contains more approvals than the limit, wherever it starts.
package quota

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Key identifies approvals that are counted together. It is a digest: a Ledger does not
// reveal the requesters of certificates.
type Key [16]byte

// KeyOf returns the key for a text in each of several parts.
func KeyOf(parts ...string) Key {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write([]byte(part))
	}
	return Key(hash.Sum(nil)[:len(Key{})])
}

// Limit is the largest number of approvals in any window of a length.
type Limit struct {
	Certificates int
	Per          time.Duration
}

// Use is how much of a quota is used at the time of a decision.
type Use struct {
	// Used is the number of approvals in the window that ends now.
	Used int
	// Counted: the request has been counted before.
	Counted bool
	// Again is when one more fits; the zero time if one fits now.
	Again time.Time
}

// Fits reports whether a request can be approved: it fits, or has been counted.
func (u Use) Fits() bool { return u.Counted || u.Again.IsZero() }

// id is the digest of the UID of a request.
type id [8]byte

func idOf(uid string) id {
	sum := sha256.Sum256([]byte(uid))
	return id(sum[:len(id{})])
}

// entry is an approval. Its time is in seconds since 1970, rounded up, so that it never
// counts too short.
type entry struct {
	at uint32
	id id
}

// list contains the approvals that are counted together, in the order of their times.
type list struct {
	// per, in seconds, and certificates are the limit that was last applied.
	per, certificates uint32
	entries           []entry
	payer             Payer
}

// Payer identifies the tenant whose requests a list counts. It is a digest, too. The zero
// value is that of lists whose tenant is not known.
type Payer [8]byte

// PayerOf returns the payer with a name.
func PayerOf(name string) Payer {
	key := KeyOf("payer", name)
	return Payer(key[:len(Payer{})])
}

// Ledger contains all counted approvals. It is not safe for concurrent use.
type Ledger struct {
	lists map[Key]*list
	// grown are the payers of approvals that were counted since the ledger was decoded or
	// encoded.
	grown map[Payer]bool
}

// New returns a Ledger in which nothing is counted.
func New() *Ledger { return &Ledger{lists: map[Key]*list{}, grown: map[Payer]bool{}} }

// remembered is how long a request is known after it has ceased to count: signing
// it once more does not count it again.
const remembered = time.Hour

// Use returns how much of a quota is used, and whether the request with a UID is
// part of that.
func (l *Ledger) Use(key Key, limit Limit, uid string, now time.Time) Use {
	counted := l.lists[key]
	if counted == nil {
		return Use{}
	}
	current := counted.after(now.Add(-limit.Per))
	use := Use{Used: len(current), Counted: counted.has(idOf(uid))}
	if over := len(current) - limit.Certificates; over >= 0 {
		use.Again = time.Unix(int64(current[over].at), 0).Add(limit.Per).UTC()
	}
	return use
}

// Count counts a request, whether or not it fits. It reports whether the request
// was not counted before. Encode checks that the payer has room for it.
func (l *Ledger) Count(key Key, payer Payer, limit Limit, uid string, now time.Time) bool {
	counted := l.lists[key]
	if counted == nil {
		counted = &list{}
		l.lists[key] = counted
	}
	counted.per, counted.certificates = uint32((limit.Per+time.Second-1)/time.Second), uint32(limit.Certificates)
	one := entry{seconds(now), idOf(uid)}
	if counted.has(one.id) {
		return false
	}
	i, _ := slices.BinarySearchFunc(counted.entries, one.at+1, func(e entry, at uint32) int { return cmp.Compare(e.at, at) })
	counted.entries = slices.Insert(counted.entries, i, one)
	counted.payer, l.grown[payer] = payer, true
	return true
}

// Prune forgets what neither counts nor has to be known any more. All: also what
// is only known so that it is not counted again.
func (l *Ledger) Prune(now time.Time, all bool) {
	for key, counted := range l.lists {
		per := time.Duration(counted.per) * time.Second
		keep := counted.after(now.Add(-per))
		if !all {
			known := counted.after(now.Add(-per - remembered))
			keep = known[max(0, len(known)-len(keep)-int(counted.certificates)):]
		}
		if len(keep) == 0 {
			delete(l.lists, key)
			continue
		}
		counted.entries = slices.Clone(keep)
	}
}

// after returns the entries whose time is after a time.
func (l *list) after(t time.Time) []entry {
	i, _ := slices.BinarySearchFunc(l.entries, t, func(e entry, t time.Time) int {
		if time.Unix(int64(e.at), 0).After(t) {
			return 1
		}
		return -1
	})
	return l.entries[i:]
}

func (l *list) has(one id) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool { return e.id == one })
}

// seconds returns a time in seconds since 1970, rounded up.
func seconds(t time.Time) uint32 {
	at := t.Unix()
	if t.Nanosecond() > 0 {
		at++
	}
	return uint32(at)
}
