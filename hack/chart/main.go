// Command chart makes the Helm chart and the kustomization in deploy from the objects
// that "certplane manifests" prints: their templates, kinds and the schema of values.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
)

const (
	chartDir     = "deploy/helm/certplane"
	kustomizeDir = "deploy/kustomize"
	// kindsDir has the kinds of certplane, which chart and kustomization share, and in
	// another folder those of cert-manager.
	kindsDir = chartDir + "/files/crds"
)

// generated begins the files that this program writes.
const generated = "# Made by hack/generate.sh from internal/run/manifests.\n"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run() error {
	model, err := learn()
	if err != nil {
		return err
	}
	files, err := chart(model)
	if err != nil {
		return err
	}
	kustomized, err := kustomization()
	if err != nil {
		return err
	}
	maps.Copy(files, kustomized)
	for _, dir := range []string{kindsDir, chartDir + "/templates/generated"} {
		if err := os.RemoveAll(dir); err != nil { // removes files that are no longer made
			return err
		}
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// The placeholders for the values of the chart in the objects, until the templates are
// written.
const (
	placeNamespace = "namespace-of-the-release"
	placeImage     = "image-of-the-release"
)

// object is a decoded object.
type object = map[string]any

// render returns the objects for choices. Without any, no controller of importance is
// chosen.
func render(chosen ...choice) ([]object, error) {
	cfg := manifests.Config{Image: placeImage, Controllers: cluster.DefaultConfig()}
	cfg.Controllers.Namespace, cfg.Controllers.Controllers = placeNamespace, []string{rights.ServeACMEOrders.Name}
	for _, c := range chosen {
		cfg.Controllers.Controllers = append(cfg.Controllers.Controllers, c.controller)
		if c.set != nil {
			c.set(&cfg.Controllers)
		}
	}
	return decoded(cfg)
}

func decoded(cfg manifests.Config) ([]object, error) {
	var text bytes.Buffer
	if err := manifests.Write(&text, cfg); err != nil {
		return nil, err
	}
	var objects []object
	for _, document := range strings.Split(text.String(), "\n---\n") {
		var one object
		if err := yaml.Unmarshal([]byte(document), &one); err != nil {
			return nil, err
		}
		if len(one) > 0 { // else it is the comment before the first object
			objects = append(objects, one)
		}
	}
	if len(objects) == 0 {
		return nil, errors.New("there are no objects")
	}
	return objects, nil
}
