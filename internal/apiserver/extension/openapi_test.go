package extension

import (
	"testing"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Documents are built while others are read: what the library writes for one must not
// be seen in another.
func TestOwnExtensions(t *testing.T) {
	definition := common.OpenAPIDefinition{Schema: spec.Schema{VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-a": "b"}}}}
	shared := &common.OpenAPIV3Config{Definitions: map[string]common.OpenAPIDefinition{"Kind": definition}}
	own := ownExtensions(shared).Definitions["Kind"].Schema.Extensions
	if own["x-a"] != "b" {
		t.Errorf("a document has the extensions %v", own)
	}
	delete(own, "x-a")
	if shared.Definitions["Kind"].Schema.Extensions["x-a"] != "b" {
		t.Error("a document has changed the extensions of others")
	}
}
