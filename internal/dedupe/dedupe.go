// Package dedupe lets objects with equal contents share their memory. Caches hold
// many objects that differ little: versions of one object, and objects that the
// same user created.
package dedupe

import (
	"bytes"
	"reflect"
	"time"
)

// Share makes object, a pointer to a struct, refer to the memory of one of two models
// wherever their contents are equal: of the first one, if both are. Its contents stay
// the same. Models that are nil or of another type are left out. Nobody may write to
// any of them any more, except for the fields of the structs themselves; others may
// read the models meanwhile.
//
// An object is passed once. It must have memory of its own: what it shares must not be
// written again.
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

// models are two values to share with. One that is not valid is left out.
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

// equal says which of two models a value is equal to.
type equal [2]bool

func (m models) equal(is func(reflect.Value) bool) equal {
	var e equal
	for i, from := range m {
		e[i] = from.IsValid() && is(from)
	}
	return e
}

// share returns which models are equal to a value, and then the value refers to the
// memory of the first of them. If none is, the parts of the value that are equal do.
// Nothing is written to what a value refers to after it refers to that of a model. It
// may report false for equal values of kinds that API objects rarely have.
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
		e = share(to.Elem(), from.each(reflect.Value.Elem)) // that of nil is not valid
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
