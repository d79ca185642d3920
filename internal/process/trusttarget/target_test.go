package trusttarget_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/process/trusttarget"
)

var shared = &apitest.Shared{}

func TestMain(m *testing.M) { apitest.Main(m, shared) }

// world is a namespace with an object that can own targets.
type world struct {
	client.Client
	trusttarget.Writer
	target trusttarget.Target
}

func newWorld(t *testing.T, kind string) world {
	t.Helper()
	s := shared.Start(t)
	api, err := client.New(s.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespace := apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t)))
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	if err := api.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	return world{api, trusttarget.Writer{Client: api, Manager: "test"}, trusttarget.Target{
		Kind: kind, NamespacedName: types.NamespacedName{Namespace: namespace, Name: "roots"},
		Owner:  ownerReference(owner),
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		Text: map[string]string{"ca.crt": "PEM"}, Binary: map[string][]byte{"ca.p12": {0xff, 0}},
	}}
}

func ownerReference(owner *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
}

// stored returns the target's metadata and its data, nil if it does not exist.
func (w world) stored(t *testing.T) (metav1.Object, map[string]string) {
	t.Helper()
	data := map[string]string{}
	if w.target.Kind == trusttarget.Secret {
		object := &corev1.Secret{}
		if err := w.Get(t.Context(), w.target.NamespacedName, object); apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			t.Fatal(err)
		}
		for key, value := range object.Data {
			data[key] = string(value)
		}
		return object, data
	}
	object := &corev1.ConfigMap{}
	if err := w.Get(t.Context(), w.target.NamespacedName, object); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		t.Fatal(err)
	}
	for key, value := range object.BinaryData {
		data[key] = string(value)
	}
	for key, value := range object.Data {
		data[key] = value
	}
	return object, data
}

// addKey adds a key of another client.
func (w world) addKey(t *testing.T) {
	t.Helper()
	var object client.Object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.target.Namespace, Name: w.target.Name}}
	patch := `{"data":{"other":"x"}}`
	if w.target.Kind == trusttarget.Secret {
		object, patch = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.target.Namespace, Name: w.target.Name}}, `{"stringData":{"other":"x"}}`
	}
	if err := w.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("other")); err != nil {
		t.Fatal(err)
	}
}

func (w world) write(t *testing.T) {
	t.Helper()
	if err := w.Writer.Apply(t.Context(), w.target); err != nil {
		t.Fatal(err)
	}
}

func TestTargets(t *testing.T) {
	for _, kind := range []string{trusttarget.ConfigMap, trusttarget.Secret} {
		w := newWorld(t, kind)
		w.write(t)
		object, data := w.stored(t)
		if len(data) != 2 || data["ca.crt"] != "PEM" || data["ca.p12"] != "\xff\x00" || object.GetLabels()["a"] != "b" || object.GetAnnotations()["c"] != "d" ||
			len(object.GetOwnerReferences()) != 1 || object.GetOwnerReferences()[0].UID != w.target.Owner.UID {
			t.Errorf("%s: stored %v: %v", kind, object, data)
		}
		if keys, err := trusttarget.Keys(object, "test"); err != nil || !slices.Equal(keys, []string{"ca.crt", "ca.p12"}) {
			t.Errorf("%s: owned keys %v: %v", kind, keys, err)
		}
		version := object.GetResourceVersion()
		if w.write(t); true {
			if object, _ = w.stored(t); object.GetResourceVersion() != version {
				t.Errorf("%s: an equal target is written", kind)
			}
		}

		// Keys of others stay, those that are no longer wanted go.
		w.addKey(t)
		w.target.Binary = nil
		w.write(t)
		if _, data = w.stored(t); len(data) != 2 || data["other"] != "x" || data["ca.crt"] != "PEM" {
			t.Errorf("%s: stored data %v", kind, data)
		}
		w.target.UID = object.GetUID()
		if err := w.Empty(t.Context(), w.target); err != nil {
			t.Fatal(err)
		}
		if _, data = w.stored(t); len(data) != 1 || data["other"] != "x" {
			t.Errorf("%s: data after Empty: %v", kind, data)
		}
	}
}

func TestEmptyObjectsAreDeleted(t *testing.T) {
	for _, kind := range []string{trusttarget.ConfigMap, trusttarget.Secret} {
		w := newWorld(t, kind)
		w.write(t)
		object, _ := w.stored(t)
		w.target.UID = object.GetUID()
		if err := w.Empty(t.Context(), w.target); err != nil {
			t.Fatal(err)
		}
		if object, data := w.stored(t); object != nil {
			t.Errorf("%s: still stored: %v", kind, data)
		}
		if err := w.Empty(t.Context(), w.target); err != nil {
			t.Errorf("%s: Empty without an object: %v", kind, err)
		}
		if object, _ := w.stored(t); object != nil {
			t.Errorf("%s: Empty creates an object", kind)
		}
	}
}

// A write for one object does not change, nor create, another of its name.
func TestUID(t *testing.T) {
	for _, kind := range []string{trusttarget.ConfigMap, trusttarget.Secret} {
		w := newWorld(t, kind)
		w.target.UID = "00000000-0000-4000-8000-000000000000"
		if err := w.Writer.Apply(t.Context(), w.target); !apierrors.IsConflict(err) {
			t.Errorf("%s: write without an object: %v", kind, err)
		}
		other := w.target
		other.UID = ""
		if err := w.Writer.Apply(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if err := w.Writer.Apply(t.Context(), w.target); !apierrors.IsInvalid(err) {
			t.Errorf("%s: write to another object: %v", kind, err)
		}
		if err := w.Empty(t.Context(), w.target); !apierrors.IsInvalid(err) {
			t.Errorf("%s: Empty of another object: %v", kind, err)
		}
	}
}

// The API refuses to give an object a second controller.
func TestOwnedTarget(t *testing.T) {
	w := newWorld(t, trusttarget.ConfigMap)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.target.Namespace, Name: "other"}}
	if err := w.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	taken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.target.Namespace, Name: w.target.Name, OwnerReferences: []metav1.OwnerReference{ownerReference(other)},
	}}
	if err := w.Create(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	if err := w.Writer.Apply(t.Context(), w.target); !apierrors.IsInvalid(err) {
		t.Errorf("error %v", err)
	}
	w.target.Kind = "Pod"
	if err := w.Writer.Apply(t.Context(), w.target); err == nil {
		t.Error("a Pod is a target")
	}
}
