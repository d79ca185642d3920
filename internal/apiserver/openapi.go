package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// withoutHub removes the hub version, which clients cannot use, from the kinds
// of a schema.
func withoutHub(namer *openapinamer.DefinitionNamer) func(string) (string, spec.Extensions) {
	const kinds = "x-kubernetes-group-version-kind"
	isHub := func(kind any) bool { return kind.(map[string]any)["version"] == runtime.APIVersionInternal }
	return func(name string) (string, spec.Extensions) {
		name, extensions := namer.GetDefinitionName(name)
		if all, ok := extensions[kinds].([]any); ok {
			extensions[kinds] = slices.DeleteFunc(all, isHub)
		}
		return name, extensions
	}
}
