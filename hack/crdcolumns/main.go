// Program crdcolumns adds columns to the tables of generated
// CustomResourceDefinitions whose Go types are not ours to mark.
//
//	crdcolumns DIR
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// added are the columns, which come before the age.
var added = []struct {
	file   string
	column map[string]any
}{
	// Clients of cert-manager's newest releases know it.
	{"cert-manager.io_certificates.yaml", map[string]any{
		"name": "Expiration", "type": "string", "jsonPath": ".status.notAfter", "priority": 1,
	}},
}

func main() {
	for _, a := range added {
		if err := add(filepath.Join(os.Args[1], a.file), a.column); err != nil {
			log.Fatal(err)
		}
	}
}

func add(file string, column map[string]any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var definition struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       map[string]any `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	for _, version := range definition.Spec["versions"].([]any) {
		version := version.(map[string]any)
		columns := version["additionalPrinterColumns"].([]any)
		named := func(name any) func(any) bool {
			return func(c any) bool { return c.(map[string]any)["name"] == name }
		}
		if slices.ContainsFunc(columns, named(column["name"])) {
			return fmt.Errorf("%s has the column %s by itself", file, column["name"])
		}
		version["additionalPrinterColumns"] = slices.Insert(columns, slices.IndexFunc(columns, named("Age")), any(column))
	}
	text, err = yaml.Marshal(definition)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return os.WriteFile(file, append([]byte("---\n"), text...), 0o644)
}
