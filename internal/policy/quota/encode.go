package quota

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// MaxBytes is the largest size of an encoded Ledger: a ConfigMap has at most
// 1 MiB.
const MaxBytes = 900 << 10

// header begins an encoded Ledger. Its last byte is the version of the format.
const header = "certplane quotas \x01"

// The sizes of the parts of an encoded Ledger in bytes: of the part before the entries of
// a list, and of each entry.
const (
	listBytes  = 16 + 4 + 4 + 4
	entryBytes = 4 + 8
)

// sharePerFree limits the space of one payer's approvals: at most this many times the free
// space. A single payer gets four fifths, and with any number of payers some space remains
// for those with few approvals.
const sharePerFree = 4

// ErrFull means that a Ledger has no room for more approvals of a payer.
var ErrFull = errors.New("the ledger of quotas has no room for more approvals: the namespace, node or user of the request has used its share, and can get approvals again when its earlier ones cease to count")

// Encode returns the Ledger as bytes, without approvals that no longer count. The error is
// ErrFull; the Ledger must not be used after it.
func (l *Ledger) Encode(now time.Time) ([]byte, error) {
	l.Prune(now, false)
	if !l.hasRoom() {
		l.Prune(now, true)
	}
	if !l.hasRoom() {
		return nil, ErrFull
	}
	clear(l.grown)
	data := append(make([]byte, 0, l.size()), header...)
	for _, key := range l.keys() {
		counted := l.lists[key]
		data = append(data, key[:]...)
		data = binary.BigEndian.AppendUint32(data, counted.per)
		data = binary.BigEndian.AppendUint32(data, counted.certificates)
		data = binary.BigEndian.AppendUint32(data, uint32(len(counted.entries)))
		for _, e := range counted.entries {
			data = binary.BigEndian.AppendUint32(data, e.at)
			data = append(data, e.id[:]...)
		}
	}
	return data, nil
}

// EncodePayers returns the payers of the lists in the order of Encode, for DecodePayers.
// They are not part of the result of Encode, so that earlier versions of the program can
// read it.
func (l *Ledger) EncodePayers() []byte {
	data := make([]byte, 0, len(Payer{})*len(l.lists))
	for _, key := range l.keys() {
		data = append(data, l.lists[key].payer[:]...)
	}
	return data
}

// DecodePayers sets the payers of lists. It ignores those of other lists: an earlier version
// of the program has no payers.
func (l *Ledger) DecodePayers(data []byte) {
	if len(data) != len(Payer{})*len(l.lists) {
		return
	}
	for _, key := range l.keys() {
		l.lists[key].payer = Payer(data[:len(Payer{})])
		data = data[len(Payer{}):]
	}
}

// hasRoom reports whether everything fits, and payers that have grown are within their
// shares.
func (l *Ledger) hasRoom() bool {
	free := MaxBytes - l.size()
	if free < 0 {
		return false
	}
	held := map[Payer]int{}
	for _, counted := range l.lists {
		if l.grown[counted.payer] {
			held[counted.payer] += counted.size()
		}
	}
	for _, bytes := range held {
		if bytes > sharePerFree*free {
			return false
		}
	}
	return true
}

func (l *Ledger) size() int {
	size := len(header)
	for _, counted := range l.lists {
		size += counted.size()
	}
	return size
}

func (l *list) size() int { return listBytes + len(Payer{}) + entryBytes*len(l.entries) }

func (l *Ledger) keys() []Key {
	var keys []Key
	for key := range l.lists {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
	return keys
}

var errFormat = errors.New("it is not a ledger of quotas, or one of a newer version")

// Decode returns the Ledger that Encode has encoded.
func Decode(data []byte) (*Ledger, error) {
	data, ok := bytes.CutPrefix(data, []byte(header))
	if !ok {
		return nil, errFormat
	}
	l := New()
	for len(data) > 0 {
		if len(data) < listBytes {
			return nil, errFormat
		}
		key, counted := Key(data[:16]), &list{per: binary.BigEndian.Uint32(data[16:]), certificates: binary.BigEndian.Uint32(data[20:])}
		n := int64(binary.BigEndian.Uint32(data[24:]))
		data = data[listBytes:]
		if int64(len(data)) < n*entryBytes || l.lists[key] != nil {
			return nil, errFormat
		}
		for range n {
			counted.entries = append(counted.entries, entry{binary.BigEndian.Uint32(data), id(data[4:entryBytes])})
			data = data[entryBytes:]
		}
		if !slices.IsSortedFunc(counted.entries, func(a, b entry) int { return int(int64(a.at) - int64(b.at)) }) {
			return nil, errFormat
		}
		l.lists[key] = counted
	}
	return l, nil
}
