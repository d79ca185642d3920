package serviceaccount

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

func partial(kind, namespace, name string, uid types.UID) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: uid,
			Annotations: map[string]string{"big": "value"},
		},
	}
}

func newFakeObjects(t *testing.T, existing ...runtime.Object) (*Objects, *fake.FakeMetadataClient) {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, existing...)
	found, err := newObjects(client)
	if err != nil {
		t.Fatal(err)
	}
	return found, client
}

func TestFind(t *testing.T) {
	found, _ := newFakeObjects(t,
		partial("ServiceAccount", "ci", "builder", "u-builder"),
		partial("Pod", "ci", "web", "u-web"),
		partial("Secret", "ci", "s", "u-s"),
		partial("Node", "", "n1", "u-n1"),
	)
	check := func(t *testing.T) {
		t.Helper()
		for _, required := range []requirement{
			{Accounts, "ci", Ref{"builder", "u-builder"}}, {Pods, "ci", Ref{"web", "u-web"}},
			{Secrets, "ci", Ref{"s", "u-s"}}, {Nodes, "", Ref{"n1", "u-n1"}},
		} {
			object, err := found.Find(t.Context(), required.kind, required.namespace, required.ref)
			if err != nil {
				t.Errorf("finding %v: %v", required, err)
			} else if object.GetUID() != required.ref.UID {
				t.Errorf("found %s for %v", object.GetUID(), required)
			}
		}
		if _, err := found.Find(t.Context(), Pods, "ci", Ref{"other", "u"}); !apierrors.IsNotFound(err) {
			t.Errorf("error for what does not exist is %v", err)
		}
	}
	t.Run("before the caches are filled", check)
	found.Start(t.Context())
	found.informers.WaitForCacheSync(t.Context().Done())
	t.Run("with caches", check)
}

// The server is called only for objects that the cache does not have as in the
// token.
func TestFindUsesTheCache(t *testing.T) {
	found, client := newFakeObjects(t, partial("Pod", "ci", "web", "u-web"))
	found.Start(t.Context())
	found.informers.WaitForCacheSync(t.Context().Done())
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, partial("Pod", "ci", "web", "u-new"), nil
	})

	cached, err := found.Find(t.Context(), Pods, "ci", Ref{"web", "u-web"})
	if err != nil || cached.GetUID() != "u-web" {
		t.Errorf("got %v, %v from the cache", cached, err)
	}
	if len(cached.GetAnnotations()) > 0 {
		t.Error("the cache keeps annotations")
	}
	fresh, err := found.Find(t.Context(), Pods, "ci", Ref{"web", "u-new"})
	if err != nil || fresh.GetUID() != "u-new" {
		t.Errorf("got %v, %v for a pod that is newer than the cache", fresh, err)
	}
}
