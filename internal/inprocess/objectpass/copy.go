package objectpass

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Copy returns the object that the other side would decode if obj were encoded: a deep copy
// whose times have the precision of the API, without empty optional fields. The type of obj
// must be one that passes.
func (o *Objects) Copy(obj runtime.Object) runtime.Object {
	copied := obj.DeepCopyObject()
	if plan := o.plans.of(copied); plan.change != nil {
		plan.change(reflect.ValueOf(copied).Elem())
	}
	return copied
}

// plan describes what Copy changes in the values of a type.
type plan struct {
	ok     bool                // false: such a value can hold a value without a known type
	change func(reflect.Value) // nil if there is nothing to change
}

// plans are the plans of types that have been seen.
type plans struct{ seen sync.Map }

// of returns the plan of the struct that obj points to.
func (p *plans) of(obj runtime.Object) plan {
	value := reflect.TypeOf(obj)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return plan{}
	}
	if known, ok := p.seen.Load(value); ok {
		return known.(plan)
	}
	made := planOf(value.Elem(), nil)
	p.seen.Store(value, made)
	return made
}

var (
	rawType       = reflect.TypeFor[runtime.RawExtension]()
	timeType      = reflect.TypeFor[metav1.Time]()
	microTimeType = reflect.TypeFor[metav1.MicroTime]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
)

// planOf makes the plan of a type that is part of the types in outer.
func planOf(t reflect.Type, outer []reflect.Type) plan {
	for _, same := range outer {
		if same == t {
			return plan{} // no kind of certificates contains itself
		}
	}
	outer = append(outer, t)
	switch {
	case t == rawType:
		return plan{}
	case t == timeType:
		return plan{true, func(v reflect.Value) {
			if at := v.Addr().Interface().(*metav1.Time); !at.IsZero() {
				*at = metav1.Unix(at.Unix(), 0)
			}
		}}
	case t == microTimeType:
		return plan{true, func(v reflect.Value) {
			if at := v.Addr().Interface().(*metav1.MicroTime); !at.IsZero() {
				at.Time = time.UnixMicro(at.UnixMicro())
			}
		}}
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(marshalerType):
		return plan{ok: true}
	}
	switch t.Kind() {
	case reflect.Struct:
		return planOfStruct(t, outer)
	case reflect.Pointer:
		inner := planOf(t.Elem(), outer)
		return plan{inner.ok, inner.onlyIf(func(v reflect.Value) bool { return !v.IsNil() }, reflect.Value.Elem)}
	case reflect.Slice:
		return planOfSlice(planOf(t.Elem(), outer))
	case reflect.Map:
		return planOfMap(t, planOf(t.Elem(), outer))
	case reflect.Interface, reflect.Func, reflect.Chan:
		return plan{}
	}
	return plan{ok: true}
}

// onlyIf applies the plan to a part of a value, under a condition.
func (p plan) onlyIf(condition func(reflect.Value) bool, part func(reflect.Value) reflect.Value) func(reflect.Value) {
	if p.change == nil {
		return nil
	}
	return func(v reflect.Value) {
		if condition(v) {
			p.change(part(v))
		}
	}
}

func planOfStruct(t reflect.Type, outer []reflect.Type) plan {
	whole := plan{ok: true}
	var changes []func(reflect.Value)
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		part := planOf(field.Type, outer)
		whole.ok = whole.ok && part.ok
		if change := part.change; change != nil {
			changes = append(changes, func(v reflect.Value) { change(v.Field(i)) })
		}
		if kind := field.Type.Kind(); (kind == reflect.Slice || kind == reflect.Map) && strings.Contains(field.Tag.Get("json"), ",omitempty") {
			changes = append(changes, func(v reflect.Value) {
				if list := v.Field(i); list.Len() == 0 && !list.IsNil() {
					list.SetZero()
				}
			})
		}
	}
	if len(changes) > 0 {
		whole.change = func(v reflect.Value) {
			for _, change := range changes {
				change(v)
			}
		}
	}
	return whole
}

func planOfSlice(item plan) plan {
	if item.change == nil {
		return item
	}
	return plan{item.ok, func(v reflect.Value) {
		for i := range v.Len() {
			item.change(v.Index(i))
		}
	}}
}

func planOfMap(t reflect.Type, item plan) plan {
	if item.change == nil {
		return item
	}
	return plan{item.ok, func(v reflect.Value) {
		for _, key := range v.MapKeys() {
			value := reflect.New(t.Elem()).Elem()
			value.Set(v.MapIndex(key))
			item.change(value)
			v.SetMapIndex(key, value)
		}
	}}
}
