// Package dedupe lets objects with equal contents share their memory. Caches hold
// many objects that differ little: versions of one object, and objects that the
// same user created.
package dedupe

import (
	"bytes"
	"reflect"
	"time"
)

// Share makes object, a pointer to a struct, refer to the memory of two models wherever its
// contents equal theirs; where both are equal, to the memory of the first. The contents of
// object do not change. Models that are nil or of another type are ignored.
//
// Afterwards only the fields of the structs themselves may be written, nothing behind them.
// Other goroutines may read the models during the call. Call Share once per object. The
// object must own its memory, because shared memory must not be written again.
func Share(object, first, second any) {
	to := reflect.ValueOf(object)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return
	}
	var from models
	for i, model := range []any{first, second} {
		if m := reflect.ValueOf(model); m.IsValid() && m.Type() == to.Type() && !m.IsNil() && m.Pointer() != to.Pointer() {
			from[i] = m.Elem()
		}
	}
	share(to.Elem(), from)
}

// models are two values to share memory with. Invalid ones are ignored.
type models [2]reflect.Value

// each returns what of returns for each of the models.
func (m models) each(of func(reflect.Value) reflect.Value) models {
	var found models
	for i, from := range m {
		if from.IsValid() {
			found[i] = of(from)
		}
	}
	return found
}

// equal reports for each of two models whether a value equals it.
type equal [2]bool

func (m models) equal(is func(reflect.Value) bool) equal {
	var e equal
	for i, from := range m {
		e[i] = from.IsValid() && is(from)
	}
	return e
}

// share reports which models equal a value, and makes the value refer to the memory of the
// first of them. If no model does, share does the same for the parts of the value. Memory
// that the value shares with a model is not written. share may report false for equal values
// of kinds that are rare in API objects.
func share(to reflect.Value, from models) equal {
	var e equal
	switch to.Kind() {
	case reflect.String:
		e = from.equal(func(f reflect.Value) bool { return f.Len() == to.Len() && f.String() == to.String() })
	case reflect.Struct:
		return shareStruct(to, from)
	case reflect.Slice:
		e = shareSlice(to, from)
	case reflect.Pointer:
		if to.IsNil() {
			return from.equal(reflect.Value.IsNil)
		}
		e = share(to.Elem(), from.each(reflect.Value.Elem)) // the element of nil is not valid
	case reflect.Map:
		e = from.equal(func(f reflect.Value) bool {
			return f.IsNil() == to.IsNil() && f.Len() == to.Len() && reflect.DeepEqual(f.Interface(), to.Interface())
		})
	case reflect.Interface, reflect.Func, reflect.Chan:
		return from.equal(func(f reflect.Value) bool { return f.IsNil() && to.IsNil() })
	case reflect.Array:
		return e
	default:
		return from.equal(to.Equal)
	}
	for i := range from {
		if e[i] {
			to.Set(from[i])
			break
		}
	}
	return e
}

func shareStruct(to reflect.Value, from models) equal {
	if to.Type() == reflect.TypeFor[time.Time]() {
		return from.equal(func(f reflect.Value) bool { return f.Interface() == to.Interface() })
	}
	e := from.equal(func(reflect.Value) bool { return true })
	for i := range to.NumField() {
		if !to.Type().Field(i).IsExported() {
			return equal{}
		}
		e = e.and(share(to.Field(i), from.each(func(f reflect.Value) reflect.Value { return f.Field(i) })))
	}
	return e
}

// shareSlice shares elements by their places.
func shareSlice(to reflect.Value, from models) equal {
	e := from.equal(func(f reflect.Value) bool { return f.IsNil() == to.IsNil() && f.Len() == to.Len() })
	if to.Type().Elem().Kind() == reflect.Uint8 {
		return e.and(from.equal(func(f reflect.Value) bool { return bytes.Equal(f.Bytes(), to.Bytes()) }))
	}
	for i := range to.Len() {
		e = e.and(share(to.Index(i), from.each(func(f reflect.Value) reflect.Value {
			if i >= f.Len() {
				return reflect.Value{}
			}
			return f.Index(i)
		})))
	}
	return e
}

func (e equal) and(other equal) equal {
	for i := range e {
		e[i] = e[i] && other[i]
	}
	return e
}
