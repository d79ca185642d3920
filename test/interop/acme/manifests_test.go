package acme

import (
	"errors"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apply does what "kubectl apply --server-side" does.
func (w *world) apply(manifests string) {
	w.t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), len(manifests))
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			w.t.Fatal(err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := w.admin.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl")); err != nil {
			w.t.Fatalf("applying %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
