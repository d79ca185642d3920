// Package dedupe lets objects with equal contents share their memory. Caches hold
// many objects that differ little: versions of one object, and objects that the
// same user created.
package dedupe

import (
	"bytes"
	"reflect"
	"time"
)

// Share makes object, a pointer to a struct, refer to the memory of model wherever
// their contents are equal. Its contents stay the same. It does nothing unless both
// have the same type. Nobody may write to either of them any more, except for the
// fields of the struct itself; others may read model meanwhile.
func Share(model, object any) {
	from, to := reflect.ValueOf(model), reflect.ValueOf(object)
	if from.Kind() != reflect.Pointer || from.Type() != to.Type() || from.IsNil() || to.IsNil() || from.Pointer() == to.Pointer() {
		return
	}
	share(from.Elem(), to.Elem())
}

// share reports whether the two are equal, and then to refers to the memory of from.
// If they are not, the parts of to that are equal do. It may report false for equal
// values of kinds that API objects rarely have.
func share(from, to reflect.Value) bool {
	switch to.Kind() {
	case reflect.String:
		if from.Len() != to.Len() || from.String() != to.String() {
			return false
		}
	case reflect.Struct:
		return shareStruct(from, to)
	case reflect.Slice:
		if from.IsNil() != to.IsNil() || !shareSlice(from, to) {
			return false
		}
	case reflect.Pointer:
		if from.IsNil() || to.IsNil() {
			return from.IsNil() && to.IsNil()
		}
		if !share(from.Elem(), to.Elem()) {
			return false
		}
	case reflect.Map:
		if from.IsNil() != to.IsNil() || from.Len() != to.Len() || !reflect.DeepEqual(from.Interface(), to.Interface()) {
			return false
		}
	case reflect.Interface, reflect.Func, reflect.Chan:
		return from.IsNil() && to.IsNil()
	case reflect.Array:
		return false
	default:
		return from.Equal(to)
	}
	to.Set(from)
	return true
}

func shareStruct(from, to reflect.Value) bool {
	if to.Type() == reflect.TypeFor[time.Time]() {
		return from.Interface() == to.Interface()
	}
	equal := true
	for i := range to.NumField() {
		if !to.Type().Field(i).IsExported() {
			return false
		}
		equal = share(from.Field(i), to.Field(i)) && equal
	}
	return equal
}

// shareSlice shares elements by their places.
func shareSlice(from, to reflect.Value) bool {
	if to.Type().Elem().Kind() == reflect.Uint8 {
		return bytes.Equal(from.Bytes(), to.Bytes())
	}
	equal := from.Len() == to.Len()
	for i := range min(from.Len(), to.Len()) {
		equal = share(from.Index(i), to.Index(i)) && equal
	}
	return equal
}
