package lean

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

const (
	// decodedObjects is the number of decoded objects that are remembered, and
	// longestDecoded the maximum length of their encodings. They bound the memory.
	decodedObjects = 128
	longestDecoded = 16 << 10
)

// decodings remembers the objects that were decoded last. The writer decodes an object at
// once, and the watch cache decodes it again milliseconds later. It is safe for concurrent
// use.
type decodings struct {
	seed  maphash.Seed
	slots [decodedObjects]atomic.Pointer[decoding]
}

// decoding is an object and the data it was decoded from. Neither may be changed.
type decoding struct {
	data   []byte
	object *Object
}

func newDecodings() *decodings { return &decodings{seed: maphash.MakeSeed()} }

func (d *decodings) slot(data []byte) *atomic.Pointer[decoding] {
	return &d.slots[maphash.Bytes(d.seed, data)%decodedObjects]
}

// find reports whether data was decoded before, and copies the object into target.
func (d *decodings) find(data []byte, target *Object) bool {
	known := d.slot(data).Load()
	if known == nil || !bytes.Equal(known.data, data) {
		return false
	}
	*target = *known.object.DeepCopyObject().(*Object)
	return true
}

// remember keeps a copy of an object.
func (d *decodings) remember(data []byte, object *Object) {
	if len(data) <= longestDecoded {
		d.slot(data).Store(&decoding{bytes.Clone(data), object.DeepCopyObject().(*Object)})
	}
}
