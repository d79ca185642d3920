package crds_test

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"github.com/certplane/certplane/internal/generated/crds"
)

// API servers accept the definitions: defaults fit their schemas, and rules are cheap
// enough.
func TestDefinitionsAreValid(t *testing.T) {
	for _, name := range append(crds.Names(), crds.Optional()...) {
		definition := read(t, name)
		apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
		definition.Status.StoredVersions = []string{definition.Spec.Versions[0].Name}
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
