package inventory

import (
	"crypto/sha256"
	"encoding/binary"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
)

// A term is one thing by which records are found: where it is in the record, and its
// value.
type term string

func newTerm(field, value string) term { return term(field + "\x00" + value) }

// labelPrefix is before the keys of labels in terms.
const labelPrefix = "label:"

// termsOf returns all terms of a record.
func termsOf(record *inventoryv1alpha1.IssuedCertificate) []term {
	var terms []term
	for field, of := range inventory.Fields {
		for _, value := range of(record) {
			terms = append(terms, newTerm(field, value))
		}
	}
	for key, value := range record.Labels {
		if key != inventoryv1alpha1.NotAfterLabel { // which has too many values
			terms = append(terms, newTerm(labelPrefix+key, value))
		}
	}
	return terms
}

// A filter is a Bloom filter of terms: it never denies one that was added, and affirms
// one in 300 of the others. Its hash is cryptographic, so that nobody can choose names
// that many filters affirm.
type filter []byte

const (
	bitsPerTerm   = 12
	probesPerTerm = 8
)

func newFilter(terms map[term]struct{}) filter {
	f := make(filter, (len(terms)*bitsPerTerm+7)/8+1)
	for t := range terms {
		f.each(t, func(octet int, bit byte) bool {
			f[octet] |= bit
			return true
		})
	}
	return f
}

// has reports whether a term may have been added.
func (f filter) has(t term) bool {
	all := true
	f.each(t, func(octet int, bit byte) bool {
		all = f[octet]&bit != 0
		return all
	})
	return all
}

// each calls visit with the bits of a term until it returns false.
func (f filter) each(t term, visit func(octet int, bit byte) bool) {
	if len(f) == 0 {
		return
	}
	digest := sha256.Sum256([]byte(t))
	at, step := binary.BigEndian.Uint64(digest[:]), binary.BigEndian.Uint64(digest[8:])|1
	bits := uint64(len(f)) * 8
	for range probesPerTerm {
		position := at % bits
		if !visit(int(position/8), 1<<(position%8)) {
			return
		}
		at += step
	}
}
