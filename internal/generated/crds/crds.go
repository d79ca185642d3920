// Package crds holds the definitions of the kinds that certplane brings along,
// made from their Go types.
package crds

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// Names are those of the CustomResourceDefinitions, in the order of the
// alphabet.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // it is inside the program
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		group, plural, _ := strings.Cut(strings.TrimSuffix(entry.Name(), ".yaml"), "_")
		names = append(names, plural+"."+group)
	}
	slices.Sort(names)
	return names
}

// Read returns the CustomResourceDefinition of this name. It is read each
// time: together they take more memory than they are worth.
func Read(name string) (*unstructured.Unstructured, error) {
	plural, group, _ := strings.Cut(name, ".")
	text, err := files.ReadFile(group + "_" + plural + ".yaml")
	if err != nil {
		return nil, err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &definition.Object); err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", name, err)
	}
	return definition, nil
}
