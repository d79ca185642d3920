package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
)

// kustomizedImage is the name of the image that a kustomization replaces.
const kustomizedImage = "certplane"

// kustomization returns the files of the kustomization by name: the default output of
// "certplane manifests". Its kinds are the same as the chart's.
func kustomization() (map[string]string, error) {
	objects, err := decoded(manifests.Config{Image: kustomizedImage, Controllers: cluster.DefaultConfig()})
	if err != nil {
		return nil, err
	}
	var rest strings.Builder
	var kinds []string
	rest.WriteString(generated)
	for _, one := range objects {
		if meta, _ := one["metadata"].(object); one["kind"] == definitionKind {
			kinds = append(kinds, fmt.Sprintf("- %v.yaml\n", meta["name"]))
			continue
		}
		document, err := yaml.Marshal(one)
		if err != nil {
			return nil, err
		}
		rest.WriteString("---\n" + string(document))
	}
	slices.Sort(kinds)
	heading := generated + "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
	return map[string]string{
		path.Join(kustomizeDir, "certplane.yaml"):              rest.String(),
		path.Join(kindsDir, "certplane", "kustomization.yaml"): heading + strings.Join(kinds, ""),
	}, nil
}
