package encryption

import (
	"slices"
	"strconv"
)

// Stage is how far a rotation of keys has come. It is recorded only by the
// order of the keys, so that an interrupted rotation can always continue.
type Stage int

const (
	// Settled is a file outside of a rotation: each list has one key.
	Settled Stage = iota
	// Added is a file whose newest key does not encrypt yet. Every server must have that key
	// before it encrypts.
	Added
	// Promoted is a file whose newest key encrypts. The other keys are needed for earlier
	// values until all of them are stored again.
	Promoted
)

// Stage is the earliest stage of all lists.
func (k *Keys) Stage() Stage {
	stage := Settled
	for list := range k.lists() {
		switch {
		case len(list.Keys) == 1:
		case list.newest() != 0:
			return Added
		default:
			stage = Promoted
		}
	}
	return stage
}

// newest is the index of the key that was made last. If a person named the
// keys, it is the index of the key that encrypts.
func (l *keyList) newest() int {
	newest := 0
	for i, key := range l.Keys {
		if key.number() > l.Keys[newest].number() {
			newest = i
		}
	}
	return newest
}

// Add appends a new key to each list.
func (k *Keys) Add() {
	for list := range k.lists() {
		name := "key" + strconv.Itoa(list.Keys[list.newest()].number()+1)
		list.Keys = append(list.Keys, newKey(name))
	}
}

// Promote makes the newest key of each list the one that encrypts.
func (k *Keys) Promote() {
	for list := range k.lists() {
		i := list.newest()
		newest := list.Keys[i]
		list.Keys = slices.Insert(slices.Delete(list.Keys, i, i+1), 0, newest)
	}
}

// Drop removes all keys except those that encrypt. Values that are encrypted with the
// removed keys cannot be read any more.
func (k *Keys) Drop() {
	for list := range k.lists() {
		list.Keys = list.Keys[:1]
	}
}
