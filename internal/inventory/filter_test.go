package inventory

import (
	"strconv"
	"testing"
)

// A search reads each pack whose filter affirms what it looks for: with a million records,
// there are 8,400 packs.
func TestFilter(t *testing.T) {
	terms := map[term]struct{}{}
	for i := range 1000 {
		terms[newTerm("known", strconv.Itoa(i))] = struct{}{}
	}
	f := newFilter(terms)
	for known := range terms {
		if !f.has(known) {
			t.Fatal("the filter denies a term that was added")
		}
	}
	const others = 100_000
	wrong := 0
	for i := range others {
		if f.has(newTerm("other", strconv.Itoa(i))) {
			wrong++
		}
	}
	if wrong > others/600 {
		t.Errorf("the filter affirms %d of %d terms that were not added, want at most one in 600", wrong, others)
	}
}
