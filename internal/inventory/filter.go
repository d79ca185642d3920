package inventory

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
)

// A term is the digest of one property that records are found by: its place in the record,
// and its value. The digest is cryptographic, so that clients cannot choose names that match
// the filters of many packs.
type term struct{ at, step uint64 }

func newTerm(field, value string) term {
	digest := sha256.Sum256([]byte(field + "\x00" + value))
	return term{binary.BigEndian.Uint64(digest[:]), binary.BigEndian.Uint64(digest[8:]) | 1}
}

// labelPrefix is before the keys of labels in terms.
const labelPrefix = "label:"

// omittedName is the field of the terms of names that records leave out, by their digests.
const omittedName = "omitted name"

// anyName is the term of records that may have any name.
var anyName = newTerm(omittedName, "")

// addTerms adds all terms of a record.
func addTerms(to map[term]struct{}, record *inventoryv1alpha1.IssuedCertificate) {
	for field, of := range inventory.Fields {
		for _, value := range of(record) {
			to[newTerm(field, value)] = struct{}{}
		}
	}
	addConditionTerms(to, record)
	if record.Certificate.OmittedNames > 0 {
		digests := record.Certificate.OmittedNameDigests
		if len(digests) == 0 {
			to[anyName] = struct{}{}
		}
		for digest := range slices.Chunk(digests, len(inventory.NameDigest(""))) {
			to[newTerm(omittedName, string(digest))] = struct{}{}
		}
	}
	for key, value := range record.Labels {
		if key != inventoryv1alpha1.NotAfterLabel { // which has too many values
			to[newTerm(labelPrefix+key, value)] = struct{}{}
		}
	}
}

// A filter is a Bloom filter of terms: it contains every term that was added, and one in
// 780 of the others by chance; one in 300 or 1,700 if it is of an older version, with 12 or 16
// bits a term.
type filter []byte

const (
	bitsPerTerm   = 14
	probesPerTerm = 8
)

func newFilter(terms map[term]struct{}) filter {
	f := make(filter, (len(terms)*bitsPerTerm+7)/8+1)
	for t := range terms {
		for octet, bit := range f.bits(t) {
			f[octet] |= bit
		}
	}
	return f
}

// has reports whether a term may have been added.
func (f filter) has(t term) bool {
	for octet, bit := range f.bits(t) {
		if f[octet]&bit == 0 {
			return false
		}
	}
	return true
}

// hasAll reports whether all terms may have been added.
func (f filter) hasAll(terms []term) bool {
	return !slices.ContainsFunc(terms, func(t term) bool { return !f.has(t) })
}

// bits yields the bits of a term: in which octet, and which of it.
func (f filter) bits(t term) func(yield func(octet int, bit byte) bool) {
	return func(yield func(int, byte) bool) {
		at, bits := t.at, uint64(len(f))*8
		for range probesPerTerm {
			position := at % bits
			if !yield(int(position/8), 1<<(position%8)) {
				return
			}
			at += t.step
		}
	}
}
