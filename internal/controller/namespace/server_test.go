package namespace_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
)

func start(t *testing.T) kubernetes.Interface {
	t.Helper()
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	apitest.NewNamespace(t, admin, "blue")
	return admin
}

func gone(t *testing.T, admin kubernetes.Interface, name string) func() bool {
	return func() bool {
		_, err := admin.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
}

func TestDeletingANamespaceDeletesWhatIsInIt(t *testing.T) {
	admin := start(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	for _, namespace := range []string{"blue", "default"} {
		if _, err := admin.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), "blue", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the namespace is gone", gone(t, admin, "blue"))

	// The new namespace with that name contains nothing of the old one.
	apitest.NewNamespace(t, admin, "blue")
	secrets, err := admin.CoreV1().Secrets("blue").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 0 {
		t.Errorf("secrets are left: %v, %v", secrets.Items, err)
	}
	roles, err := admin.RbacV1().Roles("blue").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(roles.Items) != 0 {
		t.Errorf("roles are left: %v, %v", roles.Items, err)
	}
	if _, err := admin.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{}); err != nil {
		t.Errorf("the secret of another namespace: %v", err)
	}
}

// A namespace's status says what the namespace waits for.
func TestFinalizersHoldANamespace(t *testing.T) {
	admin := start(t)
	secrets := admin.CoreV1().Secrets("blue")
	held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	if _, err := secrets.Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), "blue", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the namespace tells of the finalizer", func() bool {
		namespace, err := admin.CoreV1().Namespaces().Get(t.Context(), "blue", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return namespace.Status.Phase == corev1.NamespaceTerminating && slices.ContainsFunc(namespace.Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue &&
				c.Message == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
		})
	})
	_, err := admin.CoreV1().ConfigMaps("blue").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("creating in a namespace that ends: %v", err)
	}
	released, err := secrets.Patch(t.Context(), "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil || released == nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the namespace is gone", gone(t, admin, "blue"))
}

func TestLifecycle(t *testing.T) {
	admin := start(t)
	namespaces := admin.CoreV1().Namespaces()
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		namespace, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if namespace.Labels["kubernetes.io/metadata.name"] != name || namespace.Status.Phase != corev1.NamespaceActive ||
			!slices.Equal(namespace.Spec.Finalizers, []corev1.FinalizerName{"kubernetes"}) {
			t.Errorf("namespace %s: %+v", name, namespace)
		}
		if name == "kube-node-lease" {
			continue
		}
		if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("deleting namespace %s: %v", name, err)
		}
	}
	_, err := admin.CoreV1().Secrets("missing").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || err.Error() != `namespaces "missing" not found` {
		t.Errorf("creating in no namespace: %v", err)
	}
}
