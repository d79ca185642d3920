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

// The sizes of the parts of an encoded Ledger in bytes: of what is before the
// entries of a list, and of each entry.
const (
	listBytes  = 16 + 4 + 4 + 4
	entryBytes = 4 + 8
)

// ErrFull means that a Ledger has no room for more.
var ErrFull = errors.New("there is no room for more approvals in the ledger of quotas")

// Encode returns the Ledger as bytes, without what does not have to be known any
// more. The error is ErrFull.
func (l *Ledger) Encode(now time.Time) ([]byte, error) {
	l.Prune(now, false)
	if l.size() > MaxBytes {
		l.Prune(now, true)
	}
	size := l.size()
	if size > MaxBytes {
		return nil, ErrFull
	}
	data := append(make([]byte, 0, size), header...)
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

func (l *Ledger) size() int {
	size := len(header) + listBytes*len(l.lists)
	for _, counted := range l.lists {
		size += entryBytes * len(counted.entries)
	}
	return size
}

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
