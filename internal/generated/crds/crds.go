// Package crds holds the definitions of the kinds that certplane brings along,
// made from their Go types.
package crds

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml optional/*.yaml
var files embed.FS

// CertificateRequestPolicies is one of the Optional names.
const CertificateRequestPolicies = "certificaterequestpolicies.policy.cert-manager.io"

// Names are those of the CustomResourceDefinitions that are always installed,
// in the order of the alphabet.
func Names() []string { return namesIn(".") }

// Optional are the names of the other CustomResourceDefinitions. Each is
// installed only if the configuration says so.
func Optional() []string { return namesIn("optional") }

func namesIn(folder string) []string {
	entries, err := files.ReadDir(folder)
	if err != nil {
		panic(err) // it is inside the program
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		group, plural, _ := strings.Cut(strings.TrimSuffix(entry.Name(), ".yaml"), "_")
		names = append(names, plural+"."+group)
	}
	slices.Sort(names)
	return names
}

// Read returns the CustomResourceDefinition of this name, of either list. It is read each
// time: together they take more memory than they are worth.
func Read(name string) (*unstructured.Unstructured, error) {
	plural, group, _ := strings.Cut(name, ".")
	file := group + "_" + plural + ".yaml"
	text, err := files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = files.ReadFile(path.Join("optional", file))
	}
	if err != nil {
		return nil, err
	}
	definition := &unstructured.Unstructured{}
	asJSON, err := yaml.YAMLToJSON(text)
	if err == nil {
		// Unlike a YAML library, this reads integers as clients of an API do, so that
		// the definition can be compared with a stored one.
		err = definition.UnmarshalJSON(asJSON)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", name, err)
	}
	return definition, nil
}
