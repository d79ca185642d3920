package namespace

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// discovers returns a Discover that finds resources, and fails to find others.
func discovers(err error, resources ...metav1.APIResource) Discover {
	return func(context.Context) ([]*metav1.APIResourceList, error) {
		return []*metav1.APIResourceList{{GroupVersion: "example.com/v1", APIResources: resources}}, err
	}
}

func resource(name, kind string, verbs ...string) metav1.APIResource {
	return metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: verbs}
}

func object(kind, namespace, name string, finalizers ...string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers},
	}
}

func newFake(t *testing.T, objects ...runtime.Object) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return metadatafake.NewSimpleMetadataClient(scheme, objects...)
}

// Kinds that were unknown before are emptied with the verbs that they support.
func TestEmpty(t *testing.T) {
	client := newFake(t,
		object("Cat", "blue", "tom"), object("Cat", "blue", "kit"), object("Cat", "green", "tom"),
		object("View", "blue", "v"))
	found := discovers(nil,
		resource("cats", "Cat", "list", "delete"),
		resource("views", "View", "list"), // cannot be deleted, so it is not counted either
	)
	left := emptier{discover: found, objects: client}.empty(t.Context(), "blue")
	if err := left.err(); err != nil || len(left.objects) != 0 {
		t.Errorf("left: %v, %v", left.objects, err)
	}
	cats, err := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cats"}).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(cats.Items) != 1 || cats.Items[0].Namespace != "green" {
		t.Errorf("cats: %v, %v", cats, err)
	}
}

func TestEmptySaysWhatIsLeft(t *testing.T) {
	client := newFake(t, object("Cat", "blue", "tom", "example.com/a", "example.com/b"), object("Cat", "blue", "kit", "example.com/a"))
	broken := errors.New("broken")
	client.PrependReactor("delete", "cats", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	client.PrependReactor("delete-collection", "dogs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, broken })
	unknown := errors.New("one group does not answer")
	found := discovers(unknown,
		resource("cats", "Cat", "list", "delete"),
		resource("dogs", "Dog", "list", "delete", "deletecollection"))
	left := emptier{discover: found, objects: client}.empty(t.Context(), "blue")
	if err := left.err(); !errors.Is(err, broken) || !errors.Is(err, unknown) || left.undiscovered == nil || len(left.failed) != 1 {
		t.Errorf("errors: %v", err)
	}
	if diff := cmp.Diff(map[schema.GroupResource]int{{Group: "example.com", Resource: "cats"}: 2}, left.objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"example.com/a": 2, "example.com/b": 1}, left.finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}
