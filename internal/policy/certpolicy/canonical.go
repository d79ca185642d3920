package certpolicy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
)

// The lists of policies are sets: their order never matters. Evaluation, messages and
// hashes therefore use a canonical order.

// inOrder returns the texts in their order, without repeats.
func inOrder(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}

// byName yields the elements of a list in the order of their names, each with
// its index in the list.
func byName[T any](list []T, name func(*T) string) iter.Seq2[int, T] {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(name(&list[i]), name(&list[j])) })
	return func(yield func(int, T) bool) {
		for _, i := range order {
			if !yield(i, list[i]) {
				return
			}
		}
	}
}

// digestOf returns the digest of a specification. It sorts all lists of spec,
// which must be a pointer to a copy. Fields of structs are encoded in their
// order, keys of maps sorted.
func digestOf(spec any) string {
	sortLists(reflect.ValueOf(spec).Elem())
	sum := sha256.Sum256(encoded(spec))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// sortLists sorts the lists in a value, and those in their elements, by their
// JSON.
func sortLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			sortLists(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				sortLists(v.Field(i))
			}
		}
	case reflect.Slice:
		list := make([]reflect.Value, v.Len())
		for i := range list {
			sortLists(v.Index(i))
			list[i] = reflect.ValueOf(v.Index(i).Interface())
		}
		slices.SortStableFunc(list, func(a, b reflect.Value) int {
			return slices.Compare(encoded(a.Interface()), encoded(b.Interface()))
		})
		for i := range list {
			v.Index(i).Set(list[i])
		}
	}
}

// encoded returns a value as JSON. The types of the API can always be encoded.
func encoded(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return data
}
