package expression

import (
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// ordered returns a value whose maps, and those in it, have an order: that of
// their keys. Go iterates over maps in a random one, so that an expression that
// does could have another value each time, or another cost.
func ordered(value ref.Val) ref.Val {
	switch v := value.(type) {
	case orderedMap, orderedList:
		return value
	case traits.Mapper:
		return orderedMap{v}
	case traits.Lister:
		if _, texts := v.Value().([]string); texts {
			return value
		}
		return orderedList{v}
	}
	return value
}

type orderedMap struct{ traits.Mapper }

// Find implements traits.Mapper.
func (m orderedMap) Find(key ref.Val) (ref.Val, bool) {
	value, found := m.Mapper.Find(key)
	return ordered(value), found
}

// Get implements traits.Indexer.
func (m orderedMap) Get(key ref.Val) ref.Val { return ordered(m.Mapper.Get(key)) }

// Iterator implements traits.Iterable.
func (m orderedMap) Iterator() traits.Iterator {
	var keys []string
	for each := m.Mapper.Iterator(); each.HasNext() == types.True; {
		if key, isText := each.Next().Value().(string); isText {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return types.NewStringList(types.DefaultTypeAdapter, keys).Iterator()
}

type orderedList struct{ traits.Lister }

// Add implements traits.Adder.
func (l orderedList) Add(other ref.Val) ref.Val { return ordered(l.Lister.Add(other)) }

// Get implements traits.Indexer.
func (l orderedList) Get(index ref.Val) ref.Val { return ordered(l.Lister.Get(index)) }

// Iterator implements traits.Iterable.
func (l orderedList) Iterator() traits.Iterator { return orderedIterator{l.Lister.Iterator()} }

type orderedIterator struct{ traits.Iterator }

// Next implements traits.Iterator.
func (i orderedIterator) Next() ref.Val { return ordered(i.Iterator.Next()) }
