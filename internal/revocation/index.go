package revocation

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
)

// Index has the entries in memory, about 150 bytes each. It is safe for concurrent use.
// Lookups allocate nothing.
type Index struct {
	mu   sync.RWMutex
	acts map[types.UID]*act
	// waiting are parts whose acts are not known, by the act.
	waiting map[types.UID][]part
	// pending are acts with Act.Pending.
	pending []*act
	// entries are those of all acts, in no order. Those of removed acts stay.
	entries []packed
	// spans has the first and the last entry of each revoked certificate.
	spans []span
	// certificates has the place of each in spans, by the digest of its identifiers, as have
	// fingerprints and keys, those that are known as compromised.
	certificates, fingerprints, keys map[Digest]uint32
	// authorities are the CAs, numbers are their places there.
	authorities [][]byte
	numbers     map[string]uint32
	// damage is about entries that could not be read.
	damage error
	// revision is the revision of the last act; changed is closed and replaced with each change.
	revision int64
	changed  chan struct{}
}

type act struct {
	Act
	from, to    uint32   // its entries
	ends        uint32   // the last of their certificates
	authorities []uint32 // of their CAs
}

// part is a part of an act.
type part struct {
	Act
	entries []Entry
}

// span are the entries of a certificate by the first and by the last act.
type span struct{ first, last uint32 }

// packed is an entry without pointers.
type packed struct {
	by             *act
	authority      uint32
	notAfter, time uint32 // in seconds since 1970
	fingerprint    Digest
	serial         [MaxSerial]byte // right-aligned
	reason         pki.Reason
}

// Revoked is what is known about a revoked certificate.
type Revoked struct {
	// Time is when it was revoked first; Reason is the reason of the last act.
	Time, NotAfter time.Time
	Reason         pki.Reason
	// By is the first act that revoked it.
	By Act
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		acts: map[types.UID]*act{}, waiting: map[types.UID][]part{}, certificates: map[Digest]uint32{}, fingerprints: map[Digest]uint32{}, keys: map[Digest]uint32{},
		numbers: map[string]uint32{}, changed: make(chan struct{}),
	}
}

// Add adds the entries of an act, and returns those of certificates that were not revoked
// before. Adding an act again changes nothing. Acts may come in any order: parts wait for
// their act, and have its revision.
func (i *Index) Add(by Act, entries []Entry) (added []Entry) {
	for more := true; more; {
		var some []Entry
		some, more = i.addNext(by, entries)
		added = append(added, some...)
	}
	return added
}

// addNext adds one of the parts that wait for an act, and the act itself once none waits. So
// lookups wait for one part only.
func (i *Index) addNext(by Act, entries []Entry) (added []Entry, more bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.acts[by.UID]; ok {
		return nil, false
	}
	if parts := i.waiting[by.UID]; len(parts) > 0 {
		p := parts[0]
		i.waiting[by.UID] = parts[1:]
		p.Revision = by.Revision
		return i.addAct(p.Act, p.entries), true
	}
	delete(i.waiting, by.UID)
	if of, known := i.acts[by.Of]; known {
		by.Revision = of.Revision
	} else if by.Of != "" {
		if !slices.ContainsFunc(i.waiting[by.Of], func(p part) bool { return p.UID == by.UID }) {
			i.waiting[by.Of] = append(i.waiting[by.Of], part{by, entries})
		}
		return nil, false
	}
	added = i.addAct(by, entries)
	i.notify(by.Revision)
	return added, false
}

// addAct adds the entries of an act or of a part. i.mu is held.
func (i *Index) addAct(by Act, entries []Entry) (added []Entry) {
	from := uint32(len(i.entries))
	a := &act{Act: by, from: from, to: from + uint32(len(entries))}
	i.acts[by.UID] = a
	if len(by.Pending) > 0 && len(entries) > 0 {
		i.pending = append(i.pending, a)
	}
	for n := range entries {
		if i.add(a, &entries[n]) {
			added = append(added, entries[n])
		}
	}
	return added
}

// add adds an entry, and reports whether its certificate was not revoked before. i.mu is held.
func (i *Index) add(by *act, e *Entry) bool {
	number, ok := i.numbers[string(e.Authority)]
	if !ok {
		number = uint32(len(i.authorities))
		i.authorities, i.numbers[string(e.Authority)] = append(i.authorities, bytes.Clone(e.Authority)), number
	}
	p := packed{by: by, authority: number, notAfter: seconds(e.NotAfter), time: seconds(e.Time), fingerprint: e.Fingerprints[0], reason: e.Reason}
	copy(p.serial[MaxSerial-len(e.Serial):], e.Serial)
	by.ends = max(by.ends, p.notAfter)
	if !slices.Contains(by.authorities, number) {
		by.authorities = append(by.authorities, number)
	}
	place := uint32(len(i.entries))
	i.entries = append(i.entries, p)

	id := digestOf(e.Authority, e.Serial)
	n, known := i.certificates[id]
	if !known {
		n = uint32(len(i.spans))
		i.certificates[id], i.spans = n, append(i.spans, span{place, place})
	}
	s := &i.spans[n]
	if by.Revision < i.entries[s.first].by.Revision { // it came late
		s.first = place
	}
	if by.Revision >= i.entries[s.last].by.Revision {
		s.last = place
	}
	for _, fingerprint := range e.Fingerprints {
		if fingerprint != (Digest{}) {
			i.fingerprints[fingerprint] = n
		}
	}
	if e.Key != (Digest{}) && (e.Reason == pki.ReasonKeyCompromise || e.Reason == pki.ReasonCACompromise) {
		i.keys[e.Key] = n
	}
	return !known
}

// seconds returns a time as packed has it. Times after 2106 are the last one.
func seconds(t time.Time) uint32 { return uint32(max(0, min(t.Unix(), math.MaxUint32))) }

func timeOf(seconds uint32) time.Time { return time.Unix(int64(seconds), 0).UTC() }

// notify notes a change. i.mu is held.
func (i *Index) notify(revision int64) {
	i.revision = max(i.revision, revision)
	close(i.changed)
	i.changed = make(chan struct{})
}

// Changed returns the revision of the last act, and a channel that is closed with the next
// change.
func (i *Index) Changed() (revision int64, changed <-chan struct{}) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.revision, i.changed
}

// Follow calls do, and again after each change, until ctx ends. Changes while do runs are one.
func (i *Index) Follow(ctx context.Context, do func()) {
	follow(ctx, func() <-chan struct{} { _, changed := i.Changed(); return changed }, do)
}

func follow(ctx context.Context, changed func() <-chan struct{}, do func()) {
	for ctx.Err() == nil {
		next := changed()
		do()
		select {
		case <-ctx.Done():
		case <-next:
		}
	}
}

// Remove removes an act. All its certificates must have ended: they count as not revoked.
func (i *Index) Remove(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for of, parts := range i.waiting {
		if parts = slices.DeleteFunc(parts, func(p part) bool { return p.UID == uid }); len(parts) == 0 {
			delete(i.waiting, of)
		} else {
			i.waiting[of] = parts
		}
	}
	a, ok := i.acts[uid]
	if !ok {
		return
	}
	delete(i.acts, uid)
	i.pending = slices.DeleteFunc(i.pending, func(other *act) bool { return other == a })
	for _, all := range []map[Digest]uint32{i.certificates, i.fingerprints, i.keys} {
		maps.DeleteFunc(all, func(_ Digest, n uint32) bool { return i.entries[i.spans[n].first].by == a })
	}
	i.notify(0)
}

// Ended returns the acts whose certificates all ended before a time, also those of their parts.
func (i *Index) Ended(before time.Time) (uids []types.UID) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	needed := map[types.UID]bool{}
	for _, a := range i.acts {
		if a.ends >= seconds(before) {
			needed[a.Of] = true
		}
	}
	for uid, a := range i.acts {
		if a.ends < seconds(before) && a.from < a.to && !needed[uid] { // one without entries could not be read
			uids = append(uids, uid)
		}
	}
	return uids
}

// Unfinished returns the parts from before a time whose acts are not known.
func (i *Index) Unfinished(before time.Time) (uids []types.UID) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, parts := range i.waiting {
		for _, p := range parts {
			if len(p.entries) == 0 || p.entries[0].Time.Before(before) {
				uids = append(uids, p.UID)
			}
		}
	}
	return uids
}

// Damaged notes that entries could not be read. No list must be made without them.
func (i *Index) Damaged(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.damage = err
}

// Err returns why the index is not complete; nil if it is.
func (i *Index) Err() error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.damage
}

// number returns the serial number without leading zeros.
func (p *packed) number() []byte { return bytes.TrimLeft(p.serial[:], "\x00") }

// find returns the revocation of a certificate that one of the maps has.
func (i *Index) find(in map[Digest]uint32, d Digest) (Revoked, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	n, ok := in[d]
	if !ok {
		return Revoked{}, false
	}
	first, last := &i.entries[i.spans[n].first], &i.entries[i.spans[n].last]
	return Revoked{Time: timeOf(first.time), NotAfter: timeOf(first.notAfter), Reason: last.reason, By: first.by.Act}, true
}

// Certificate returns the revocation of a certificate; false if it is not revoked.
func (i *Index) Certificate(cert *x509.Certificate) (Revoked, bool) {
	if i.Len() == 0 || cert.SerialNumber.BitLen() > 8*MaxSerial {
		return Revoked{}, false
	}
	var buffer [MaxSerial]byte
	return i.find(i.certificates, digestOf(AuthorityOf(cert), bytes.TrimLeft(cert.SerialNumber.FillBytes(buffer[:]), "\x00")))
}

// RevokedCA returns an error about the first revoked one among certificates of CAs; nil if none
// is revoked, or if i is nil.
func (i *Index) RevokedCA(cas ...*x509.Certificate) error {
	if i == nil {
		return nil
	}
	for _, ca := range cas {
		if r, ok := i.Certificate(ca); ok {
			return fmt.Errorf("the CA %s was revoked on %s: %s", ca.Subject, r.Time.Format(time.RFC3339), r.Reason)
		}
	}
	return nil
}

// Find is Certificate, also for entries with only a fingerprint.
func (i *Index) Find(cert *x509.Certificate) (Revoked, bool) {
	if r, ok := i.Certificate(cert); ok || i.Len() == 0 {
		return r, ok
	}
	return i.Fingerprint(halfSum(cert.Raw))
}

// EndsSince returns the ends of the certificates of all entries but the first n, in seconds
// since 1970, and the number of all entries. isExact is false if some ends are not known.
func (i *Index) EndsSince(n int) (ends map[int64]bool, isExact bool, all int) {
	i.mu.RLock()
	added := i.entries[n:]
	i.mu.RUnlock()
	ends, isExact = map[int64]bool{}, true
	for at := range added {
		ends[int64(added[at].notAfter)] = true
		isExact = isExact && added[at].notAfter > 0 && added[at].fingerprint != Digest{} // without a record, the end is that of the CA
	}
	return ends, isExact, n + len(added)
}

// PendingAct is an act with Act.Pending.
type PendingAct struct {
	Act
	Time   time.Time
	Reason pki.Reason
}

// Pending returns the acts with Act.Pending that were made after a time.
func (i *Index) Pending(after time.Time) (found []PendingAct) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, a := range i.pending {
		if first := &i.entries[a.from]; first.time > seconds(after) {
			found = append(found, PendingAct{a.Act, timeOf(first.time), first.reason})
		}
	}
	return found
}

// Entry returns the revocation of an entry's certificate; false if it is not revoked.
func (i *Index) Entry(e *Entry) (Revoked, bool) {
	return i.find(i.certificates, digestOf(e.Authority, e.Serial))
}

// Fingerprint returns the revocation of the certificate with a fingerprint; false if none
// with it is known as revoked.
func (i *Index) Fingerprint(d Digest) (Revoked, bool) { return i.find(i.fingerprints, d) }

// Key returns the revocation of a certificate with a key that is known as compromised; false
// if there is none.
func (i *Index) Key(key crypto.PublicKey) (Revoked, bool) {
	d, _ := KeyOf(key) // zero is not in keys
	return i.find(i.keys, d)
}

// HasKeys reports whether any key is known as compromised.
func (i *Index) HasKeys() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return len(i.keys) > 0
}

// Len returns the number of revoked certificates.
func (i *Index) Len() int {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return len(i.certificates)
}

// List returns the entries of a CA's list that covers the acts up to a revision, without
// certificates that ended before a time: in the order of the acts, one for each certificate,
// with the date of its first and the reason of its last act. ids are the identifiers of the CA
// (AuthoritiesOf). It skips the certificate with the fingerprint except.
func (i *Index) List(ids [][]byte, until int64, endedBefore time.Time, except Digest) []pki.ListEntry {
	entries, acts, of := i.actsOf(ids, func(revision int64) bool { return revision <= until })
	slices.SortFunc(acts, func(a, b *act) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.UID, b.UID))
	})
	var list []pki.ListEntry
	places := map[[MaxSerial]byte]int{}
	for _, a := range acts {
		for place := a.from; place < a.to; place++ {
			p := &entries[place]
			if !slices.Contains(of, p.authority) || timeOf(p.notAfter).Before(endedBefore) || except != (Digest{}) && p.fingerprint == except {
				continue
			}
			if first, ok := places[p.serial]; ok {
				list[first].Reason = p.reason
				continue
			}
			places[p.serial] = len(list)
			list = append(list, pki.ListEntry{Serial: p.number(), Time: timeOf(p.time), Reason: p.reason})
		}
	}
	return list
}

// actsOf returns the acts of some revisions with certificates of a CA, the entries, which never
// change, and the numbers of the CA's identifiers.
func (i *Index) actsOf(ids [][]byte, wanted func(revision int64) bool) (entries []packed, acts []*act, numbers []uint32) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, id := range ids {
		if number, ok := i.numbers[string(id)]; ok {
			numbers = append(numbers, number)
		}
	}
	for _, a := range i.acts {
		if wanted(a.Revision) && slices.ContainsFunc(a.authorities, func(number uint32) bool { return slices.Contains(numbers, number) }) {
			acts = append(acts, a)
		}
	}
	return i.entries, acts, numbers
}

// Uncovered returns since when an entry of a CA waits for a list that covers more than the
// acts up to a revision; false if none waits. All entries of an act have one time.
func (i *Index) Uncovered(ids [][]byte, after int64) (since time.Time, some bool) {
	if revision, _ := i.Changed(); revision <= after {
		return time.Time{}, false
	}
	entries, acts, _ := i.actsOf(ids, func(revision int64) bool { return revision > after })
	for _, a := range acts {
		if at := timeOf(entries[a.from].time); since.IsZero() || at.Before(since) {
			since = at
		}
	}
	return since, len(acts) > 0
}

// digestOf identifies a certificate.
func digestOf(authority, serial []byte) Digest {
	var buffer [1 + maxAuthority + MaxSerial]byte
	return halfSum(append(append(append(buffer[:0], byte(len(authority))), authority...), serial...))
}

// Act returns the revision of an act, and the identifiers of the CAs of its certificates; false
// if the act is not known.
func (i *Index) Act(uid types.UID) (revision int64, authorities [][]byte, ok bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	a, ok := i.acts[uid]
	if !ok || a.from == a.to { // the latter could not be read
		return 0, nil, false
	}
	for _, number := range a.authorities {
		authorities = append(authorities, i.authorities[number])
	}
	return a.Revision, authorities, true
}

// EntriesOf returns the number of entries of an act, its parts, and those added to it later.
func (i *Index) EntriesOf(uid types.UID) (count int) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for other, a := range i.acts {
		if other == uid || strings.HasPrefix(string(other), string(uid)+"-") {
			count += int(a.to - a.from)
		}
	}
	return count
}

// Fingerprinted returns the known fingerprints of the certificates of an act, the first ones.
func (i *Index) Fingerprinted(uid types.UID, most int) (found []Digest) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	a, ok := i.acts[uid]
	if !ok {
		return nil
	}
	for place := a.from; place < a.to && len(found) < most; place++ {
		if own := i.entries[place].fingerprint; own != (Digest{}) {
			found = append(found, own)
		}
	}
	return found
}
