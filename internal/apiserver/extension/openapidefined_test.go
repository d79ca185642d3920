package extension

import (
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
)

// The documents follow the definitions; those of built-in groups stay.
func TestDocumentsFollowDefinitions(t *testing.T) {
	definition := func(resourceVersion, description string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
		crd := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "cups.example.com", ResourceVersion: resourceVersion},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "cups", Kind: "Cup"},
			},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			}},
		}
		for _, name := range versions {
			crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
				Name: name, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Description: description},
				},
			})
		}
		return crd
	}
	stored := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	p := documentPublisher{to: handler3.NewOpenAPIService(), published: map[string]bool{}}
	p.to.UpdateGroupVersion("apis/example.com/builtin", &spec3.OpenAPI{Version: "3.0.0"})
	published := func(version string) string {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest("GET", "/openapi/v3/apis/example.com/"+version, nil)
		request.Header.Set("Accept", "application/json")
		p.to.HandleGroupVersion(answer, request)
		return answer.Body.String()
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		for _, version := range []string{"v1", "v2", "builtin"} {
			if got := published(version); want[version] == "" && got != "" || !strings.Contains(got, want[version]) {
				t.Errorf("%s: %s has %.200q, want %q", when, version, got, want[version])
			}
		}
	}
	first, second := definition("1", "white", "v1", "builtin"), definition("2", "black", "v1", "v2")
	first.Spec.Versions[1].Served = false
	handler := onChange(listers.NewCustomResourceDefinitionLister(stored), p.publish)
	stored.Add(first)
	handler.OnAdd(first, true)
	check("added", map[string]string{"v1": "white", "builtin": "3.0.0"})
	stored.Update(second)
	handler.OnUpdate(first, second)
	check("with another version", map[string]string{"v1": "black", "v2": "black", "builtin": "3.0.0"})
	third := definition("3", "green", "v2")
	stored.Update(third)
	handler.OnUpdate(second, third)
	check("without the first version", map[string]string{"v2": "green", "builtin": "3.0.0"})
	stored.Delete(third)
	handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: third})
	check("deleted", map[string]string{"builtin": "3.0.0"})
}
