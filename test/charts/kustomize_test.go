package charts

import (
	"path/filepath"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const kustomizeDir = "../../deploy/kustomize"

func build(t *testing.T, dir string) objects {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

func TestKustomizationIsManifests(t *testing.T) {
	same(t, build(t, kustomizeDir), manifests(t, "--image=certplane"))
}

// Users can change the output in a separate kustomization.
func TestKustomizationOnTop(t *testing.T) {
	base, err := filepath.Abs(kustomizeDir)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "kustomization.yaml"), `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [`+relative+`]
images: [{name: certplane, newName: registry.example.com/certplane, newTag: v1}]
replicas: [{name: certplane-controllers, count: 3}]
`)
	got, want := build(t, dir), manifests(t, "--image=registry.example.com/certplane:v1", "--replicas=3")
	for key := range want {
		// The image in the settings of solvers, and so the digest of the settings, stay: they are
		// of no use without the controller challenges.
		if key == "ConfigMap "+installed+" certplane-controllers" {
			delete(want, key)
			delete(got, key)
		}
	}
	for _, all := range []objects{got, want} {
		template := all["Deployment "+installed+" certplane-controllers"].(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)
		delete(template["metadata"].(map[string]any), "annotations")
	}
	same(t, got, want)
}
