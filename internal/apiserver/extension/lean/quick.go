package lean

import (
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// quickValidator accepts most valid values with a fraction of the library's work, which makes
// a dozen objects for each value of a value. The library validates what it does not accept,
// and returns the errors.
type quickValidator struct {
	validation.SchemaValidator
	check *check
}

// newValidator returns the validator of a schema.
func newValidator(of *apiextensions.JSONSchemaProps) (validation.SchemaValidator, error) {
	library, schema, err := validation.NewSchemaValidator(of)
	if err != nil {
		return nil, err
	}
	return quickValidator{library, newCheck(schema)}, nil
}

// Validate implements validation.SchemaValidator.
func (q quickValidator) Validate(value any, options ...validation.ValidationOption) *validate.Result {
	if q.check.accepts(value) {
		return &validate.Result{}
	}
	return q.SchemaValidator.Validate(value, options...)
}

// ValidateUpdate implements validation.SchemaValidator.
func (q quickValidator) ValidateUpdate(value, old any, options ...validation.ValidationOption) *validate.Result {
	if q.check.accepts(value) {
		return &validate.Result{}
	}
	return q.SchemaValidator.ValidateUpdate(value, old, options...)
}

// check is a compiled schema. A nil check accepts nothing: its schema has what only the
// library understands.
type check struct {
	kind     string
	fields   map[string]*check // of an object
	items    *check            // of an array, and other fields of an object
	required []string
	enum     []any
	pattern  *regexp.Regexp
	format   string
	// least and most limit a number, or the size of another value.
	least, most int64
}

func newCheck(s *spec.Schema) *check {
	if s == nil || len(s.Type) != 1 || s.Ref.String() != "" || s.Not != nil || len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 ||
		len(s.PatternProperties)+len(s.Dependencies) > 0 || s.UniqueItems || s.MultipleOf != nil || len(s.Enum) > 0 && s.Type[0] != "string" {
		return nil
	}
	c := &check{kind: s.Type[0], required: s.Required, enum: s.Enum, least: math.MinInt64, most: math.MaxInt64}
	switch c.kind {
	case "object":
		c.limit(s.MinProperties, s.MaxProperties)
		c.fields = map[string]*check{}
		for name, field := range s.Properties {
			c.fields[name] = newCheck(&field)
		}
		if s.AdditionalProperties != nil {
			c.items = newCheck(s.AdditionalProperties.Schema)
		}
	case "array":
		c.limit(s.MinItems, s.MaxItems)
		if s.Items != nil {
			c.items = newCheck(s.Items.Schema)
		}
	case "string":
		c.limit(s.MinLength, s.MaxLength)
		return c.text(s)
	case "integer":
		return c.integer(s)
	case "boolean":
	default:
		return nil
	}
	return c
}

func (c *check) limit(least, most *int64) {
	if least != nil {
		c.least = *least
	}
	if most != nil {
		c.most = *most
	}
}

func (c *check) text(s *spec.Schema) *check {
	if strfmt.Default.ContainsName(s.Format) {
		c.format = s.Format
	}
	if s.Pattern == "" {
		return c
	}
	var err error
	if c.pattern, err = regexp.Compile(s.Pattern); err != nil {
		return nil
	}
	return c
}

func (c *check) integer(s *spec.Schema) *check {
	switch s.Format {
	case "", "int64":
	case "int32":
		c.least, c.most = math.MinInt32, math.MaxInt32
	default:
		return nil
	}
	if s.ExclusiveMinimum || s.ExclusiveMaximum || !isExact(s.Minimum) || !isExact(s.Maximum) {
		return nil
	}
	if s.Minimum != nil {
		c.least = max(c.least, int64(*s.Minimum))
	}
	if s.Maximum != nil {
		c.most = min(c.most, int64(*s.Maximum))
	}
	return c
}

// isExact reports whether a limit, if there is one, is exactly an integer.
func isExact(limit *float64) bool {
	return limit == nil || math.Trunc(*limit) == *limit && math.Abs(*limit) < 1<<53
}

// accepts reports whether the library would accept a value for certain.
func (c *check) accepts(value any) bool {
	if c == nil || len(c.enum) > 0 && !slices.Contains(c.enum, value) {
		return false
	}
	switch value := value.(type) {
	case map[string]any:
		return c.kind == "object" && c.sized(len(value)) && c.acceptsFields(value)
	case []any:
		return c.kind == "array" && c.sized(len(value)) && !slices.ContainsFunc(value, func(item any) bool { return !c.items.accepts(item) })
	case string:
		return c.kind == "string" && c.sized(utf8.RuneCountInString(value)) &&
			(c.pattern == nil || c.pattern.MatchString(value)) && (c.format == "" || strfmt.Default.Validates(c.format, value))
	case int64:
		return c.kind == "integer" && c.least <= value && value <= c.most
	case bool:
		return c.kind == "boolean"
	}
	return false
}

func (c *check) sized(size int) bool { return c.least <= int64(size) && int64(size) <= c.most }

func (c *check) acceptsFields(value map[string]any) bool {
	for name, field := range value {
		of, known := c.fields[name]
		if !known {
			of = c.items
		}
		if !of.accepts(field) {
			return false
		}
	}
	return !slices.ContainsFunc(c.required, func(name string) bool { _, has := value[name]; return !has })
}
