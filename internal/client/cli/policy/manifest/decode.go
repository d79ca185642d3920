package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Decode decodes the object as the API does, and refuses fields that its type
// does not have. Its error consists of *Error.
func (d *Document) Decode(into any) error {
	unknown, err := kjson.UnmarshalStrict(d.JSON, into)
	if err != nil {
		return d.typeError(err)
	}
	var all []error
	for _, one := range unknown {
		all = append(all, d.fieldError(one, reflect.TypeOf(into)))
	}
	slices.SortStableFunc(all, func(a, b error) int { return a.(*Error).Line - b.(*Error).Line })
	return errors.Join(all...)
}

// Mistakes returns the parts of an error of Decode.
func Mistakes(err error) []*Error {
	if joined, isJoined := err.(interface{ Unwrap() []error }); isJoined {
		var all []*Error
		for _, one := range joined.Unwrap() {
			all = append(all, Mistakes(one)...)
		}
		return all
	}
	var one *Error
	if errors.As(err, &one) {
		return []*Error{one}
	}
	return nil
}

// quoted is the last text in quotes.
var quoted = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"[^"]*$`)

// fieldError returns the error for a field that is unknown to a type, or given twice.
func (d *Document) fieldError(err error, of reflect.Type) *Error {
	text := err.Error()
	if found := quoted.FindStringSubmatch(text); found != nil {
		path, err := strconv.Unquote(`"` + found[1] + `"`)
		if err != nil {
			path = found[1]
		}
		if meant := near(of, path); meant != "" && strings.HasPrefix(text, "unknown field ") {
			text += ": did you mean " + meant + "?"
		}
		return d.Errorf(path, "%s", text)
	}
	return d.Errorf("", "%s", text)
}

// typeError returns the error for a value of another type. The errors of types
// that parse texts do not say where the text is: it is found by its value.
func (d *Document) typeError(err error) *Error {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		text := fmt.Sprintf("%s: must be %s, not %s", mismatch.Field, typeName(mismatch.Type), article(mismatch.Value))
		if mismatch.Type.Kind() == reflect.String && !slices.Contains([]string{"object", "array"}, mismatch.Value) {
			text += ": put it in quotes"
		}
		return d.Errorf(mismatch.Field, "%s", text)
	}
	if found := quoted.FindStringSubmatch(err.Error()); found != nil {
		value, unquoted := strconv.Unquote(`"` + found[1] + `"`)
		if path, node := find(d.node, value); unquoted == nil && node != nil {
			text := path + ": " + err.Error()
			if strings.HasPrefix(err.Error(), "time: ") {
				text += "; " + certmanager.DurationHint
			}
			return &Error{d.File, node.Line, text}
		}
	}
	return d.Errorf("", "%v", err)
}

// article puts the article before the name of a JSON type.
func article(value string) string {
	kind, _, _ := strings.Cut(value, " ")
	switch kind {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "object", "array":
		return map[string]string{"object": "a map", "array": "a list"}[kind]
	}
	return "a " + kind
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "a map"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return t.String()
}

// find returns the first text with a value, and its path.
func find(node *yamlv3.Node, value string) (string, *yamlv3.Node) {
	switch node.Kind {
	case yamlv3.ScalarNode:
		if node.Value == value {
			return "", node
		}
	case yamlv3.AliasNode:
		return "", nil // it is found where it is defined
	case yamlv3.SequenceNode:
		for i, item := range node.Content {
			if path, found := find(item, value); found != nil {
				return join(fmt.Sprintf("[%d]", i), path), found
			}
		}
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if path, found := find(node.Content[i+1], value); found != nil {
				return join(node.Content[i].Value, path), found
			}
		}
	}
	return "", nil
}

func join(first, rest string) string {
	if rest == "" || strings.HasPrefix(rest, "[") {
		return first + rest
	}
	return first + "." + rest
}
