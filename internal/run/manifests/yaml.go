package manifests

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// encode prints an object without the fields that its server fills in. An
// object without a Go type has no fields that were not set.
func encode(object runtime.Object) (string, error) {
	if loose, ok := object.(*unstructured.Unstructured); ok {
		return asYAML(loose.Object)
	}
	fields, err := asMap(object)
	if err != nil {
		return "", err
	}
	delete(fields, "status")
	prune(fields)
	return asYAML(fields)
}

// prune removes empty stanzas, which Go's types cannot leave out.
func prune(fields map[string]any) {
	for key, value := range fields {
		if stanza, ok := value.(map[string]any); ok {
			prune(stanza)
			if len(stanza) == 0 {
				delete(fields, key)
			}
		}
	}
}

func asMap(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	var fields map[string]any
	return fields, json.Unmarshal(data, &fields)
}

// asYAML prints keys in alphabetical order.
func asYAML(value any) (string, error) {
	text, err := yaml.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	return string(text), nil
}
