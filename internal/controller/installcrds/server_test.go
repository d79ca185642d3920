package installcrds_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
)

const name = "signers.certplane.dev"

// A server that is ready serves its own kinds, whatever happens to their
// definitions.
func TestDefinitionsAreKept(t *testing.T) {
	s := apitest.Start(t)
	crds, err := crdclient.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	definitions, signers := crds.ApiextensionsV1().CustomResourceDefinitions(), objects.Resource(v1alpha1.GroupVersion.WithResource("signers"))
	if _, err := signers.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatalf("the server is ready, and Signers are not served: %v", err)
	}
	get := func() *apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		definition, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return definition
	}
	first := get()

	damage := []byte(`[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}, {"op": "add", "path": "/metadata/labels", "value": {"my": "label"}}]`)
	if _, err := definitions.Patch(t.Context(), name, types.JSONPatchType, damage, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the definition is mended", func() bool {
		return len(get().Spec.Versions[0].AdditionalPrinterColumns) == len(first.Spec.Versions[0].AdditionalPrinterColumns)
	})
	if get().Labels["my"] != "label" {
		t.Error("a label of somebody else is gone")
	}

	// The library gives up for minutes if the storage is still opening.
	served := func() bool {
		_, err := signers.List(t.Context(), metav1.ListOptions{})
		return err == nil
	}
	apitest.Eventually(t, "Signers are served by the mended definition", served)
	if err := definitions.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the definition is back", func() bool {
		again := get()
		return again.UID != "" && again.UID != first.UID
	})
	apitest.Eventually(t, "Signers are served again", served)
}

// After a restart, the definition is already as it is to be.
func TestRestartWritesNothing(t *testing.T) {
	s := apitest.Start(t)
	version := func() string {
		t.Helper()
		crds, err := crdclient.NewForConfig(s.Admin(t))
		if err != nil {
			t.Fatal(err)
		}
		definition, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return definition.ResourceVersion
	}
	before := version()
	s.Restart(t)
	if after := version(); before != after {
		t.Errorf("the definition was version %s and is %s", before, after)
	}
}
