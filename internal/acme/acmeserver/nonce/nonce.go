// Package nonce issues the nonces of an ACME server and redeems each once (RFC 8555
// section 6.5), without storing them: a nonce contains, sealed, the data to check it, and
// a bitmap of constant size records which nonces were used.
package nonce

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Lifetime is how long a nonce is good.
	Lifetime = time.Hour
	// Window is how many nonces are good at a time: the newest ones.
	Window = 1 << 20
)

// A nonce is the instance, random bytes, the sealed counter and time, and their tag,
// in base64url.
const (
	instanceSize = 4
	randomSize   = 12
	plainSize    = 8 + 4
	tagSize      = 16
	size         = instanceSize + randomSize + plainSize + tagSize
)

// Size is the length of a nonce in characters.
const Size = (size*8 + 5) / 6

var encoding = base64.RawURLEncoding.Strict()

// Instance names the process that has made a nonce.
type Instance [instanceSize]byte

// String returns the instance in hexadecimal.
func (i Instance) String() string { return hex.EncodeToString(i[:]) }

// Outcome is the result of redeeming a nonce.
type Outcome string

// The outcomes. All but Valid mean that the request is refused with badNonce; for
// Foreign, the process that has made the nonce may be asked first.
const (
	Valid     Outcome = "valid"
	Used      Outcome = "used"
	Expired   Outcome = "expired" // too old, or followed by too many others
	Foreign   Outcome = "foreign" // apparently made by another process
	Malformed Outcome = "malformed"
)

// Nonces are the nonces of one process. They are safe for concurrent use.
type Nonces struct {
	instance Instance
	aead     cipher.AEAD
	now      func() time.Time
	start    time.Time
	scratch  sync.Pool

	newest atomic.Uint64 // the counter of the newest nonce; the first has 1
	used   [Window / 64]atomic.Uint64
}

// scratch are the buffers of one call; on the stack they would escape.
type scratch struct {
	plain  [plainSize]byte
	sealed [size]byte
	text   [Size]byte
}

// New returns nonces under a key that only this process has. After a restart, the nonces
// of the former process are invalid, and clients try again with a new one. now must have a
// monotonic reading, as time.Now has.
func New(now func() time.Time) (*Nonces, error) {
	var key [32]byte
	rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("making the key of nonces: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("making the key of nonces: %w", err)
	}
	n := &Nonces{aead: aead, now: now, start: now(), scratch: sync.Pool{New: func() any { return new(scratch) }}}
	rand.Read(n.instance[:])
	return n, nil
}

// Instance returns the name of this process.
func (n *Nonces) Instance() Instance { return n.instance }

// Issue returns a new nonce. It allocates only the returned string, because any client may
// ask for any number of nonces.
//
// The random bytes are the nonce of AES-GCM: before two are equal, a process makes
// about 2^48 nonces.
func (n *Nonces) Issue() string {
	s := n.scratch.Get().(*scratch)
	defer n.scratch.Put(s)
	binary.BigEndian.PutUint64(s.plain[:8], n.next())
	binary.BigEndian.PutUint32(s.plain[8:], n.seconds())
	copy(s.sealed[:], n.instance[:])
	random := s.sealed[instanceSize:][:randomSize]
	rand.Read(random)
	n.aead.Seal(s.sealed[:instanceSize+randomSize], random, s.plain[:], n.instance[:])
	encoding.Encode(s.text[:], s.sealed[:])
	return string(s.text[:])
}

// next returns the next counter, and clears the bit that it shares with the counter that
// leaves the window. The counter comes first, see use.
func (n *Nonces) next() uint64 {
	counter := n.newest.Add(1)
	word, bit := place(counter)
	n.used[word].And(^bit)
	return counter
}

// seconds returns the time since the start of the process.
func (n *Nonces) seconds() uint32 {
	return uint32(min(n.now().Sub(n.start)/time.Second, math.MaxUint32))
}

// Redeem marks a nonce as used. Of several calls with one nonce, at most one returns
// Valid. With Foreign, the instance identifies the process that issued the nonce.
func (n *Nonces) Redeem(nonce string) (Outcome, Instance) {
	s := n.scratch.Get().(*scratch)
	defer n.scratch.Put(s)
	if len(nonce) != Size {
		return Malformed, Instance{}
	}
	copy(s.text[:], nonce)
	if decoded, err := encoding.Decode(s.sealed[:], s.text[:]); err != nil || decoded != size {
		return Malformed, Instance{}
	}
	instance := Instance(s.sealed[:instanceSize])
	if instance != n.instance {
		return Foreign, instance
	}
	random, sealed := s.sealed[instanceSize:][:randomSize], s.sealed[instanceSize+randomSize:]
	if _, err := n.aead.Open(s.plain[:0], random, sealed, n.instance[:]); err != nil {
		return Malformed, Instance{}
	}
	counter, issued := binary.BigEndian.Uint64(s.plain[:8]), binary.BigEndian.Uint32(s.plain[8:])
	if !n.inWindow(counter) || n.seconds()-issued >= uint32(Lifetime/time.Second) {
		return Expired, instance
	}
	return n.use(counter), instance
}

// use sets the bit of a counter. The call that sets it wins if the counter is still in the
// window afterwards. If it is not, the bit may have been cleared after an earlier use of
// the nonce.
func (n *Nonces) use(counter uint64) Outcome {
	word, bit := place(counter)
	before := n.used[word].Or(bit)
	switch {
	case !n.inWindow(counter):
		return Expired
	case before&bit != 0:
		return Used
	}
	return Valid
}

func (n *Nonces) inWindow(counter uint64) bool { return counter+Window > n.newest.Load() }

// place returns the word of a counter, and its bit there.
func place(counter uint64) (word, bit uint64) { return counter % Window / 64, 1 << (counter % 64) }
