package configfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/process/duration"
)

var (
	durationType    = reflect.TypeFor[metav1.Duration]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

// converter makes a document fit its Go type: it turns durations into the form that
// metav1.Duration reads. It collects the values that do not fit, each with its path. It
// keeps fields that the type does not have; the decoder reports them.
type converter struct {
	problems []error
}

func (f *converter) refuse(path, format string, args ...any) {
	if path == "" {
		path = "the file"
	}
	f.problems = append(f.problems, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// convert returns value as t reads it, or nil if it does not fit.
func (f *converter) convert(value any, t reflect.Type, path string) any {
	switch {
	case value == nil:
		return nil
	case t == durationType:
		return f.length(value, path)
	case t.Kind() == reflect.Pointer:
		return f.convert(value, t.Elem(), path)
	case reflect.PointerTo(t).Implements(unmarshalerType):
		return f.checkUnmarshaler(value, t, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return f.object(value, t, path)
	case reflect.Map:
		return f.entries(value, t, path)
	case reflect.Slice, reflect.Array:
		return f.list(value, t, path)
	default:
		if problem := scalarProblem(value, t); problem != "" {
			f.refuse(path, "%s", problem)
			return nil
		}
		return value
	}
}

func (f *converter) length(value any, path string) any {
	text, ok := value.(string)
	if !ok {
		f.refuse(path, "%s is not a duration: want %s", shown(value), duration.Want)
		return nil
	}
	length, err := duration.Parse(text)
	if err != nil {
		f.refuse(path, "%v", err)
		return nil
	}
	return length.String() // which metav1.Duration reads
}

// checkUnmarshaler tries the UnmarshalJSON method of a type that has one.
func (f *converter) checkUnmarshaler(value any, t reflect.Type, path string) any {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		f.refuse(path, "%s cannot be read: %v", shown(value), err)
		return nil
	}
	return value
}

func (f *converter) object(value any, t reflect.Type, path string) any {
	fields, ok := value.(map[string]any)
	if !ok {
		f.refuse(path, "%s is not an object: want fields below it, such as %s", shown(value), exampleOf(t))
		return nil
	}
	f.fields(fields, t, path)
	return fields
}

// fields converts the values of the fields of t and of its embedded structs.
func (f *converter) fields(values map[string]any, t reflect.Type, path string) {
	for field := range t.Fields() {
		name, inline := nameOf(field)
		if inline {
			f.fields(values, field.Type, path)
		} else if value, ok := values[name]; ok && name != "" {
			values[name] = f.convert(value, field.Type, childPath(path, name))
			if values[name] == nil && leaveOut(value, field.Type) {
				delete(values, name)
			}
		}
	}
}

// leaveOut reports whether to remove a value that t cannot hold from the document, so that
// the default applies: any value that does not fit, and null for a duration, which
// metav1.Duration cannot read.
func leaveOut(value any, t reflect.Type) bool { return value != nil || t == durationType }

// nameOf returns the name of a field in JSON, or "" if it has none there.
func nameOf(field reflect.StructField) (name string, inline bool) {
	name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case name == "-" || !field.IsExported() && !field.Anonymous:
		return "", false
	case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
		return "", true
	default:
		return name, false
	}
}

// exampleOf names a field that t has.
func exampleOf(t reflect.Type) string {
	for field := range t.Fields() {
		name, inline := nameOf(field)
		if inline {
			return exampleOf(field.Type)
		}
		if name != "" {
			return name
		}
	}
	return "{}"
}

func (f *converter) entries(value any, t reflect.Type, path string) any {
	entries, ok := value.(map[string]any)
	if !ok {
		f.refuse(path, "%s is not an object: want NAME: VALUE below it", shown(value))
		return nil
	}
	for name, entry := range entries {
		entries[name] = f.convert(entry, t.Elem(), childPath(path, name))
		if entries[name] == nil && leaveOut(entry, t.Elem()) {
			delete(entries, name)
		}
	}
	return entries
}

func (f *converter) list(value any, t reflect.Type, path string) any {
	items, ok := value.([]any)
	if !ok {
		if t.Elem().Kind() != reflect.Uint8 { // bytes are a string in base64
			f.refuse(path, "%s is not a list: want [%s]", shown(value), shown(value))
			return nil
		}
		return value
	}
	converted := []any{}
	for i, item := range items {
		if value := f.convert(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); value != nil || !leaveOut(item, t.Elem()) {
			converted = append(converted, value)
		}
	}
	return converted
}

// scalarProblem returns what keeps a value from being read as the scalar t, or
// "".
func scalarProblem(value any, t reflect.Type) string {
	number, isNumber := value.(json.Number)
	switch t.Kind() {
	case reflect.String:
		return stringProblem(value, isNumber)
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			return shown(value) + " is not true or false"
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if _, err := strconv.ParseInt(number.String(), 10, t.Bits()); !isNumber || err != nil {
			return fmt.Sprintf("%s is not a whole number of at most %d", shown(value), int64(1)<<(t.Bits()-1)-1)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if _, err := strconv.ParseUint(number.String(), 10, t.Bits()); !isNumber || err != nil {
			return fmt.Sprintf("%s is not a whole number from 0 to %d", shown(value), uint64(1)<<(t.Bits()-1)-1+uint64(1)<<(t.Bits()-1))
		}
	case reflect.Float32, reflect.Float64:
		if _, err := strconv.ParseFloat(number.String(), t.Bits()); !isNumber || err != nil {
			return shown(value) + " is not a number"
		}
	}
	return ""
}

func stringProblem(value any, isNumber bool) string {
	if _, ok := value.(string); ok {
		return ""
	}
	if isNumber || value == true || value == false {
		return fmt.Sprintf("%s is not a string: write it with quotes, \"%v\"", shown(value), value)
	}
	return shown(value) + " is not a string"
}

func childPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// shown returns a value for an error message; for an object or a list, it returns the kind.
func shown(value any) string {
	switch value := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return strconv.Quote(value)
	default:
		return fmt.Sprint(value)
	}
}
