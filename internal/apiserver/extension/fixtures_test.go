package extension_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/apitest"
)

// world is a server and its administrator.
type world struct {
	*apitest.Server
	admin   kubernetes.Interface
	crds    crdclient.Interface
	dynamic dynamic.Interface
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{Server: apitest.Start(t)}
	w.connect(t)
	return w
}

func (w *world) connect(t *testing.T) {
	t.Helper()
	var err error
	w.admin = apitest.Client(t, w.Admin(t))
	if w.crds, err = crdclient.NewForConfig(w.Admin(t)); err != nil {
		t.Fatal(err)
	}
	if w.dynamic, err = dynamic.NewForConfig(w.Admin(t)); err != nil {
		t.Fatal(err)
	}
}

// definition returns a cluster-scoped kind of group, with one version v1 that
// accepts anything in spec and status.
func definition(plural, kind, group string, edits ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	anything := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &anything,
				}},
			}},
		},
	}
	for _, edit := range edits {
		edit(crd)
	}
	return crd
}

// withSchema replaces the schema of v1 by one in YAML.
func withSchema(t *testing.T, text string) func(*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	var schema apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(text), &schema); err != nil {
		t.Fatal(err)
	}
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &schema
	}
}

// define stores crd and waits until it is served.
func (w *world) define(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	apitest.Define(t, w.crds, crd)
	apitest.Eventually(t, crd.Name+" is served", func() bool {
		_, err := w.resource(crd, "v1").List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

func (w *world) resource(crd *apiextensionsv1.CustomResourceDefinition, version string) dynamic.ResourceInterface {
	return w.dynamic.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: version, Resource: crd.Spec.Names.Plural})
}

// object parses YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func create(t *testing.T, in dynamic.ResourceInterface, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := in.Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// at returns a field of obj, or nil if it does not exist.
func at(obj *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return value
}
