// Program crds completes generated CustomResourceDefinitions whose Go types belong to
// another project and cannot contain certplane's markers.
//
//	crds DIR VERSION
//
// VERSION is the version of cert-manager's types. Its definitions are labelled with it:
// cmctl and other tools read the installed version of cert-manager from the label.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// definition has the fields of a CustomResourceDefinition that are kept.
type definition struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       map[string]any `json:"spec"`
}

// versionLabel is the label that has the version.
const versionLabel = "app.kubernetes.io/version"

// edits are made to versions in the files, in addition to the label.
var edits = []struct {
	file  string
	edits []func(version map[string]any) error
}{
	{"acme.cert-manager.io_challenges.yaml", []func(map[string]any) error{openPods, addChallengeTypes}},
	{"acme.cert-manager.io_orders.yaml", nil},
	{"cert-manager.io_certificaterequests.yaml", nil},
	{"cert-manager.io_certificates.yaml", []func(map[string]any) error{addExpiration}},
	{"cert-manager.io_clusterissuers.yaml", []func(map[string]any) error{openPods}},
	{"cert-manager.io_issuers.yaml", []func(map[string]any) error{openPods}},
}

func main() {
	for _, e := range edits {
		if err := change(filepath.Join(os.Args[1], e.file), os.Args[2], e.edits...); err != nil {
			log.Fatalf("%s: %v", e.file, err)
		}
	}
}

func change(file, release string, edits ...func(map[string]any) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var d definition
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		return err
	}
	d.Metadata["labels"] = map[string]any{versionLabel: release}
	for _, version := range d.Spec["versions"].([]any) {
		for _, edit := range edits {
			if err := edit(version.(map[string]any)); err != nil {
				return err
			}
		}
	}
	if text, err = yaml.Marshal(d); err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), text...), 0o644)
}

// addExpiration adds a column to tables of Certificates, before the age, that
// the newest clients know.
func addExpiration(version map[string]any) error {
	const name = "Expiration"
	columns := version["additionalPrinterColumns"].([]any)
	named := func(name string) func(any) bool {
		return func(c any) bool { return c.(map[string]any)["name"] == name }
	}
	if slices.ContainsFunc(columns, named(name)) {
		return fmt.Errorf("already has the column %s", name)
	}
	column := map[string]any{"name": name, "type": "string", "jsonPath": ".status.notAfter", "priority": 1}
	version["additionalPrinterColumns"] = slices.Insert(columns, slices.IndexFunc(columns, named("Age")), any(column))
	return nil
}

// addChallengeTypes lets Challenges have types that cert-manager does not solve.
// In the Go type the field is a string: clients of cert-manager read and write
// such objects without loss.
func addChallengeTypes(version map[string]any) error {
	field := version
	for _, name := range []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "type"} {
		var ok bool
		if field, ok = field[name].(map[string]any); !ok {
			return fmt.Errorf("has no %s on the way to spec.type", name)
		}
	}
	known, ok := field["enum"].([]any)
	if !ok {
		return fmt.Errorf("spec.type can have any value")
	}
	field["enum"] = append(known, "TLS-ALPN-01", "DNS-ACCOUNT-01", "DNS-PERSIST-01")
	return nil
}

// openPods leaves the specs of the pods that solve challenges to admission,
// which refuses fields that do not exist. Written out, these specs are three
// quarters of all schemas: a server would need tens of megabytes and a second
// more for them.
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
