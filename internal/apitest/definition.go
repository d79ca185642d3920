package apitest

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Define stores the definition of a kind and waits until it is established. Requests
// for its objects may be refused for another moment.
func Define(t testing.TB, client crdclient.Interface, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, crd.Name+" is established", func() bool {
		got, err := definitions.Get(t.Context(), crd.Name, metav1.GetOptions{})
		return err == nil && apihelpers.IsCRDConditionTrue(got, apiextensionsv1.Established)
	})
}
