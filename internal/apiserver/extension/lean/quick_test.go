package lean

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// What is accepted quickly is what the library accepts; everything else is left to it.
func TestQuickValidator(t *testing.T) {
	text := func(edit func(*apiextensions.JSONSchemaProps)) apiextensions.JSONSchemaProps {
		s := apiextensions.JSONSchemaProps{Type: "string"}
		edit(&s)
		return s
	}
	integer := apiextensions.JSONSchemaProps{Type: "integer", Format: "int32", Minimum: new(2.0), Maximum: new(10.0)}
	schema := &apiextensions.JSONSchemaProps{Type: "object", Required: []string{"name"}, MaxProperties: new(int64(4)), Properties: map[string]apiextensions.JSONSchemaProps{
		"name": text(func(s *apiextensions.JSONSchemaProps) {
			s.MinLength, s.MaxLength, s.Pattern = new(int64(2)), new(int64(4)), "^[a-zä]*$"
		}),
		"time":    text(func(s *apiextensions.JSONSchemaProps) { s.Format = "date-time" }),
		"data":    text(func(s *apiextensions.JSONSchemaProps) { s.Format = "byte" }),
		"state":   text(func(s *apiextensions.JSONSchemaProps) { s.Enum = []apiextensions.JSON{"valid", "invalid"} }),
		"count":   integer,
		"big":     {Type: "integer", Format: "int64"},
		"half":    {Type: "integer", Minimum: new(1.5)},
		"flag":    {Type: "boolean"},
		"numbers": {Type: "array", MinItems: new(int64(1)), MaxItems: new(int64(2)), Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &integer}},
		"labels":  {Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &integer}},
		"object":  {Type: "object", Required: []string{"flag"}, Properties: map[string]apiextensions.JSONSchemaProps{"flag": {Type: "boolean"}}},
		"ratio":   {Type: "number"},
		"either":  {Type: "object", AnyOf: []apiextensions.JSONSchemaProps{{Required: []string{"a"}}}, Properties: map[string]apiextensions.JSONSchemaProps{"a": {Type: "string"}}},
		"null":    {Type: "string", Nullable: true},
	}}
	v, err := newValidator(schema)
	if err != nil {
		t.Fatal(err)
	}
	quick := v.(quickValidator)
	library := quick.SchemaValidator
	values := map[string][]any{
		"name":    {"ab", "ää", "a", "abcde", "AB", "", int64(1), nil},
		"time":    {"2026-01-02T03:04:05Z", "2026-01-02", "now", ""},
		"data":    {"YWI=", "?", ""},
		"state":   {"valid", "other", ""},
		"count":   {int64(2), int64(10), int64(1), int64(11), 2.0, 2.5, "2", true},
		"big":     {int64(1 << 60), -int64(1 << 60), 1e30},
		"half":    {int64(1), int64(2)},
		"flag":    {true, false, "true"},
		"numbers": {[]any{int64(3)}, []any{}, []any{int64(3), int64(3), int64(3)}, []any{"a"}, []any{nil}, map[string]any{}},
		"labels":  {map[string]any{"a": int64(3)}, map[string]any{"a": "b"}, map[string]any{}, []any{}},
		"object":  {map[string]any{"flag": true}, map[string]any{}, map[string]any{"flag": true, "other": true}},
		"ratio":   {0.5, int64(1), "1"},
		"either":  {map[string]any{"a": "b"}, map[string]any{}},
		"null":    {nil, "a"},
	}
	accepted := 0
	agree := func(object any) {
		t.Helper()
		valid := library.Validate(object).IsValid()
		if quick.check.accepts(object) {
			accepted++
			if !valid {
				t.Errorf("%v is accepted, and the library refuses it", object)
			}
		}
		if v.Validate(object).IsValid() != valid || v.ValidateUpdate(object, map[string]any{}).IsValid() != valid {
			t.Errorf("%v: the library says %v", object, valid)
		}
	}
	agree(map[string]any{})
	agree(nil)
	agree("text")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[name] {
			agree(map[string]any{name: value})
			agree(map[string]any{"name": "ab", name: value})
			agree(map[string]any{"name": "ab", "flag": true, "big": int64(1), "time": "2026-01-02T03:04:05Z", name: value})
		}
	}
	if accepted < 25 {
		t.Errorf("only %d values are accepted quickly", accepted)
	}
}
