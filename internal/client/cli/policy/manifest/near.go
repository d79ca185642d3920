package manifest

import (
	"reflect"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// near returns the field that may be meant by an unknown one of a type, such as
// spec.mach; empty if there is none.
func near(of reflect.Type, path string) string {
	parts := strings.Split(path, ".")
	last := len(parts) - 1
	for _, part := range parts[:last] {
		name, _, _ := strings.Cut(part, "[")
		of = fieldsOf(of)[name]
	}
	var known []string
	for name := range fieldsOf(of) {
		if strings.EqualFold(name, parts[last]) {
			return name
		}
		known = append(known, name)
	}
	slices.Sort(known)
	return print.Near(parts[last], known)
}

// fieldsOf returns the types of the fields of a struct, or of the items of a list of
// structs, by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	fields := map[string]reflect.Type{}
	if t == nil || t.Kind() != reflect.Struct {
		return fields
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}
