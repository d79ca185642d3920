// Program crds finishes generated CustomResourceDefinitions whose Go types are
// not ours to mark.
//
//	crds DIR
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// definition is what of a CustomResourceDefinition is kept as it is.
type definition struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       map[string]any `json:"spec"`
}

// edits are made to versions in the files.
var edits = []struct {
	file string
	edit func(version map[string]any) error
}{
	{"cert-manager.io_certificates.yaml", addExpiration},
	{"cert-manager.io_issuers.yaml", openPods},
	{"cert-manager.io_clusterissuers.yaml", openPods},
	{"acme.cert-manager.io_challenges.yaml", openPods},
}

func main() {
	for _, e := range edits {
		if err := change(filepath.Join(os.Args[1], e.file), e.edit); err != nil {
			log.Fatalf("%s: %v", e.file, err)
		}
	}
}

func change(file string, edit func(map[string]any) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var d definition
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		return err
	}
	for _, version := range d.Spec["versions"].([]any) {
		if err := edit(version.(map[string]any)); err != nil {
			return err
		}
	}
	if text, err = yaml.Marshal(d); err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), text...), 0o644)
}

// addExpiration adds a column of tables of Certificates, before the age, that
// the newest clients know.
func addExpiration(version map[string]any) error {
	const name = "Expiration"
	columns := version["additionalPrinterColumns"].([]any)
	named := func(name string) func(any) bool {
		return func(c any) bool { return c.(map[string]any)["name"] == name }
	}
	if slices.ContainsFunc(columns, named(name)) {
		return fmt.Errorf("has the column %s by itself", name)
	}
	column := map[string]any{"name": name, "type": "string", "jsonPath": ".status.notAfter", "priority": 1}
	version["additionalPrinterColumns"] = slices.Insert(columns, slices.IndexFunc(columns, named("Age")), any(column))
	return nil
}

// openPods leaves the specs of the pods that solve challenges to admission,
// which refuses fields that do not exist. Written out they are three quarters of
// all schemas: a server would need tens of megabytes and a second more for them.
func openPods(version map[string]any) error {
	opened := 0
	var walk func(schema any)
	walk = func(schema any) {
		node, _ := schema.(map[string]any)
		if items, has := node["items"]; has {
			walk(items)
		}
		properties, _ := node["properties"].(map[string]any)
		for name, property := range properties {
			if name == "podTemplate" {
				open(property.(map[string]any)["properties"].(map[string]any))
				opened++
				continue
			}
			walk(property)
		}
	}
	walk(version["schema"].(map[string]any)["openAPIV3Schema"])
	if opened == 0 {
		return fmt.Errorf("has no pods")
	}
	return nil
}

func open(template map[string]any) {
	template["spec"] = map[string]any{
		"type": "object",
		"description": "Parts of a pod's spec: affinity, imagePullSecrets, nodeSelector, priorityClassName, resources,\n" +
			"securityContext, serviceAccountName, tolerations. See \"kubectl explain pod.spec\".",
		"x-kubernetes-preserve-unknown-fields": true,
	}
}
