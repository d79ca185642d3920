package lean

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// selectable is a field for field selectors (KEP-4358).
type selectable struct {
	name string
	path []string
}

// selectables fails if a path is not simple; the API refuses definitions with other paths.
func selectables(declared []apiextensionsv1.SelectableField) ([]selectable, error) {
	var all []selectable
	for _, one := range declared {
		name := strings.TrimPrefix(one.JSONPath, ".")
		if name == "" || strings.ContainsAny(name, `[]'"\{}`) {
			return nil, fmt.Errorf("%w: the path %q of a selectable field", errNotSimple, one.JSONPath)
		}
		all = append(all, selectable{name, strings.Split(name, ".")})
	}
	return all, nil
}

// attributes returns the values for label and field selectors.
func (d *definition) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	o, ok := obj.(*Object)
	if !ok {
		return nil, nil, fmt.Errorf("a %T has no fields to select by", obj)
	}
	values := make(fields.Set, 2+len(d.selectable))
	values["metadata.name"] = o.Name
	if d.namespaced {
		values["metadata.namespace"] = o.Namespace
	}
	if len(d.selectable) == 0 {
		return o.Labels, values, nil
	}
	content, err := d.content(o)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range d.selectable {
		value, _, err := unstructured.NestedFieldNoCopy(content, s.path...)
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", s.name, err)
		}
		if values[s.name] = ""; value != nil {
			values[s.name] = fmt.Sprint(value)
		}
	}
	return o.Labels, values, nil
}
