package garbage_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
)

type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	t.Run("background", w.testBackground)
	t.Run("foreground", w.testForeground)
	t.Run("cycle", w.testForegroundCycle)
	t.Run("orphan", w.testOrphan)
	t.Run("two owners", w.testTwoOwners)
	t.Run("wrong owners", w.testWrongOwners)
	t.Run("refused deletion", w.testRefused)
	t.Run("custom resources", w.testCustomResources)
	t.Run("restart", w.testRestart)
}

// owned creates a ConfigMap with owners, and with finalizers that keep it.
func (w world) owned(t *testing.T, name string, owners []metav1.OwnerReference, finalizers ...string) *corev1.ConfigMap {
	t.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners, Finalizers: finalizers}}
	made, err := w.admin.CoreV1().ConfigMaps("default").Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// by returns references to owners, which the dependent blocks.
func by(owners ...*corev1.ConfigMap) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	for _, o := range owners {
		blocks := true
		refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &blocks})
	}
	return refs
}

func (w world) delete(t *testing.T, name string, policy metav1.DeletionPropagation) {
	t.Helper()
	if err := w.admin.CoreV1().ConfigMaps("default").Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatal(err)
	}
}

func (w world) get(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	obj, err := w.admin.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (w world) eventuallyGone(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		apitest.Eventually(t, name+" is gone", func() bool { return w.get(t, name) == nil })
	}
}

// release removes the finalizers of an object.
func (w world) release(t *testing.T, name string) {
	t.Helper()
	_, err := w.admin.CoreV1().ConfigMaps("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (w world) testBackground(t *testing.T) {
	owner := w.owned(t, "b-owner", nil)
	child := w.owned(t, "b-child", by(owner))
	w.owned(t, "b-grandchild", by(child))
	w.delete(t, "b-owner", metav1.DeletePropagationBackground)
	w.eventuallyGone(t, "b-child", "b-grandchild")
}

// testForeground checks that an owner is deleted after the last dependent that
// it waits for.
func (w world) testForeground(t *testing.T) {
	owner := w.owned(t, "f-owner", nil)
	child := w.owned(t, "f-child", by(owner))
	w.owned(t, "f-grandchild", by(child), "test/keep")
	w.delete(t, "f-owner", metav1.DeletePropagationForeground)
	apitest.Eventually(t, "the last of the line is being deleted", func() bool { return w.get(t, "f-grandchild").DeletionTimestamp != nil })
	for _, name := range []string{"f-owner", "f-child"} {
		if obj := w.get(t, name); obj == nil || obj.DeletionTimestamp == nil || obj.Finalizers[0] != metav1.FinalizerDeleteDependents {
			t.Errorf("%s = %+v, want it to wait", name, obj)
		}
	}
	w.release(t, "f-grandchild")
	w.eventuallyGone(t, "f-grandchild", "f-child", "f-owner")
}

func (w world) testForegroundCycle(t *testing.T) {
	one := w.owned(t, "c-one", nil)
	two := w.owned(t, "c-two", by(one))
	one.OwnerReferences = by(two)
	if _, err := w.admin.CoreV1().ConfigMaps("default").Update(t.Context(), one, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.delete(t, "c-one", metav1.DeletePropagationForeground)
	w.eventuallyGone(t, "c-one", "c-two")
}

func (w world) testOrphan(t *testing.T) {
	owner := w.owned(t, "o-owner", nil)
	other := w.owned(t, "o-other", nil)
	w.owned(t, "o-child", by(owner))
	w.owned(t, "o-shared", by(owner, other))
	w.delete(t, "o-owner", metav1.DeletePropagationOrphan)
	w.eventuallyGone(t, "o-owner")
	if child := w.get(t, "o-child"); child == nil || len(child.OwnerReferences) != 0 {
		t.Errorf("child = %+v, want it without an owner", child)
	}
	if shared := w.get(t, "o-shared"); shared == nil || len(shared.OwnerReferences) != 1 || shared.OwnerReferences[0].UID != other.UID {
		t.Errorf("shared = %+v, want it with the other owner", shared)
	}
}

func (w world) testTwoOwners(t *testing.T) {
	first, second := w.owned(t, "t-first", nil), w.owned(t, "t-second", nil)
	w.owned(t, "t-child", by(first, second))
	w.delete(t, "t-first", metav1.DeletePropagationBackground)
	apitest.Eventually(t, "the child has lost an owner", func() bool { return len(w.get(t, "t-child").OwnerReferences) == 1 })
	w.delete(t, "t-second", metav1.DeletePropagationBackground)
	w.eventuallyGone(t, "t-child")
}

// testWrongOwners checks that an owner is the object with this UID in this
// place.
func (w world) testWrongOwners(t *testing.T) {
	owner := w.owned(t, "w-owner", nil)
	never := by(owner)
	never[0].UID = "00000000-0000-0000-0000-000000000000"
	w.owned(t, "w-never", never)
	unserved := by(owner)
	unserved[0].APIVersion, unserved[0].Kind = "example.com/v1", "Unserved"
	w.owned(t, "w-unserved", unserved)

	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "w-elsewhere", OwnerReferences: by(owner)}}
	if _, err := w.admin.CoreV1().ConfigMaps("kube-public").Create(t.Context(), elsewhere, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventuallyGone(t, "w-never")
	apitest.Eventually(t, "what is owned across namespaces is gone", func() bool {
		_, err := w.admin.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "w-elsewhere", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if w.get(t, "w-unserved") == nil {
		t.Error("an object went whose owner nobody can know")
	}
}

// testCustomResources checks that kinds that are defined later own and are
// owned like others.
func (w world) testCustomResources(t *testing.T) {
	crds, err := crdclient.NewForConfig(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	anything := true
	_, err = crds.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "parents.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "parents", Kind: "Parent"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	parents := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "parents"})
	var parent *unstructured.Unstructured
	apitest.Eventually(t, "the kind is served", func() bool {
		parent, err = parents.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Parent", "metadata": map[string]any{"name": "p"},
		}}, metav1.CreateOptions{})
		return err == nil
	})
	w.owned(t, "p-child", []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Parent", Name: "p", UID: parent.GetUID()}})
	if err := parents.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventuallyGone(t, "p-child")
}

// testRestart checks that garbage is found that appeared while no collector
// ran.
func (w world) testRestart(t *testing.T) {
	owner := w.owned(t, "r-owner", nil)
	w.owned(t, "r-child", by(owner), "test/keep")
	w.delete(t, "r-owner", metav1.DeletePropagationForeground)
	w.Restart(t)
	w.admin = apitest.Client(t, w.Admin(t))
	apitest.Eventually(t, "the child is being deleted", func() bool {
		child := w.get(t, "r-child")
		return child == nil || child.DeletionTimestamp != nil
	})
	w.release(t, "r-child")
	w.eventuallyGone(t, "r-child", "r-owner")
}

// testRefused checks that an Event says why an object stays whose owners are gone, and that
// its deletion is not tried again and again.
func (w world) testRefused(t *testing.T) {
	protect := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "oldObject.metadata.name != 'r-kept'", Message: "it is kept"}},
		},
	}
	if _, err := w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), protect, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "keep", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	if _, err := w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.owned(t, "r-kept", nil)
	apitest.Eventually(t, "the object cannot be deleted", func() bool {
		err := w.admin.CoreV1().ConfigMaps("default").Delete(t.Context(), "r-kept", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "it is kept")
	})
	owners := []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"7f4f6a2e-0000-4000-8000-000000000000"}]}}`)
	if _, err := w.admin.CoreV1().ConfigMaps("default").Patch(t.Context(), "r-kept", types.MergePatchType, owners, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	found := func() (notes []string, count int32) {
		list, err := w.admin.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Regarding.Name != "r-kept" || e.Reason != "OwnersGone" {
				continue
			}
			notes, count = append(notes, e.Note), count+1
			if e.Series != nil {
				count += e.Series.Count
			}
		}
		return notes, count
	}
	apitest.Eventually(t, "an Event says that the object stays", func() bool { notes, _ := found(); return len(notes) > 0 })
	// Later objects are collected: many tries would come before.
	w.testBackground(t)
	if notes, count := found(); count != 1 || !strings.Contains(notes[0], "it is kept") || w.get(t, "r-kept") == nil {
		t.Errorf("%d times: %v; the object is %v", count, notes, w.get(t, "r-kept"))
	}
}
