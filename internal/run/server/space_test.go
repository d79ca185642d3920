package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/etcd"
)

// spaceWorld is a server with a small store, and namespaces whose editors fill
// as much of it as they can.
type spaceWorld struct {
	*apitest.Server
	admin kubernetes.Interface
}

// large is most of a mebibyte.
var large = strings.Repeat("x", 1000<<10)

func smallStore(cfg *server.Config) {
	cfg.Etcd.QuotaMiB, cfg.Etcd.MaxPercentPerTenant = 32, 40
}

func TestStoreSpace(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, smallStore)
	w := spaceWorld{s, apitest.Client(t, s.Admin(t))}
	for _, name := range []string{"a", "b", "c", "d"} {
		w.newEditor(t, name)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "heart"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")}}
	lease, err := w.editor(t, "d").CoordinationV1().Leases("d").Create(t.Context(), lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	t.Run("one object again and again", w.testOneObject)
	t.Run("one tenant", func(t *testing.T) {
		refusal := w.fill(t, w.editor(t, "a"), "a")
		if !strings.Contains(refusal, "namespace a has") || !strings.Contains(refusal, "etcd.maxPercentPerTenant") {
			t.Errorf("the refusal is %q", refusal)
		}
		if err := w.add(t, w.editor(t, "b"), "b", 0); err != nil {
			t.Errorf("another tenant: %v", err)
		}
	})
	t.Run("all tenants", func(t *testing.T) {
		w.fill(t, w.editor(t, "b"), "b")
		if refusal := w.fill(t, w.editor(t, "c"), "c"); !strings.Contains(refusal, "the store is full") || !strings.Contains(refusal, "etcd.quotaMiB") {
			t.Errorf("the refusal is %q", refusal)
		}
	})
	full := func(t *testing.T) {
		apitest.Eventually(t, "a tenant that has nothing is refused", func() bool {
			w.fill(t, w.editor(t, "c"), "c") // whose refusal can make some room
			err := w.add(t, w.editor(t, "d"), "d", 0)
			if err == nil {
				w.empty(t, w.editor(t, "d"), "d")
			}
			return isFull(err)
		})
		if err := w.add(t, w.admin, "default", 0); err != nil {
			t.Errorf("an administrator: %v", err)
		}
		if err := w.admin.CoreV1().ConfigMaps("default").Delete(t.Context(), "large-0", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		beat := []byte(`{"spec":{"holderIdentity":"y"}}`)
		if _, err := w.editor(t, "d").CoordinationV1().Leases("d").Patch(t.Context(), lease.Name, types.MergePatchType, beat, metav1.PatchOptions{}); err != nil {
			t.Errorf("a heartbeat: %v", err)
		}
		if got := w.get(t, "/readyz"); got != http.StatusOK {
			t.Errorf("/readyz: %d", got)
		}
	}
	t.Run("full", full)
	w.Restart(t)
	w.admin = apitest.Client(t, w.Admin(t))
	t.Run("full, after a restart", full)
	t.Run("deleting makes room", func(t *testing.T) {
		w.empty(t, w.editor(t, "a"), "a")
		w.eventuallyWrites(t)
	})
	t.Run("administrators", w.testAdministrators)
	t.Run("revocation", w.testRevocation)
	t.Run("etcd refuses", w.testEtcdRefuses)
}

// testOneObject checks that versions of an object that were replaced take no
// room.
func (w *spaceWorld) testOneObject(t *testing.T) {
	editor := w.editor(t, "d")
	if err := w.add(t, editor, "d", 0); err != nil {
		t.Fatal(err)
	}
	for i := range 60 { // far more than the store, and what is in reserve
		data := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i)
		if _, err := editor.CoreV1().ConfigMaps("d").Patch(t.Context(), "large-0", types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
			t.Fatalf("update %d: %v", i, err)
		}
	}
	w.empty(t, editor, "d")
	w.eventuallyWrites(t)
}

// testAdministrators checks that administrators do not use up what the server needs.
func (w *spaceWorld) testAdministrators(t *testing.T) {
	if refusal := w.fill(t, w.admin, "default"); !strings.Contains(refusal, "the store is full") {
		t.Errorf("the refusal is %q", refusal)
	}
	text, err := w.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(text), "\ncertplane_store_refusing 1\n") {
		t.Errorf("the metric does not report that writes are refused: %v", err)
	}
	if got := w.get(t, "/readyz"); got != http.StatusOK {
		t.Errorf("/readyz: %d", got)
	}
	if err := w.admin.CoreV1().ConfigMaps("default").Delete(t.Context(), "large-1", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting: %v", err)
	}
}

// testRevocation checks that a certificate can be revoked, and is listed, although
// administrators can write nothing else.
func (w *spaceWorld) testRevocation(t *testing.T) {
	apitest.Eventually(t, "an administrator is refused", func() bool {
		w.fill(t, w.admin, "default") // whose refusal can make some room
		err := w.add(t, w.admin, "kube-public", 0)
		if err == nil {
			w.empty(t, w.admin, "kube-public")
		}
		return isFull(err)
	})
	thief := w.Login(t, "thief")
	revoke(t, w.Admin(t), thief)
	if _, err := apitest.Client(t, thief).Discovery().ServerVersion(); !apierrors.IsUnauthorized(err) {
		t.Errorf("the revoked certificate: %v", err)
	}
	apitest.Eventually(t, "the certificate is listed", func() bool {
		data, err := w.admin.Discovery().RESTClient().Get().AbsPath("/apis/certplane.dev/v1alpha1/revocations").DoRaw(t.Context())
		return err == nil && strings.Contains(string(data), `"reason":"Listed"`)
	})
}

// testEtcdRefuses checks that deleting is enough also when another program has filled etcd
// up to its own limit, and that a restart helps.
func (w *spaceWorld) testEtcdRefuses(t *testing.T) {
	w.inEtcd(t, func(client *clientv3.Client) {
		for i := 0; ; i++ {
			_, err := client.Put(t.Context(), fmt.Sprintf("/other/%d", i), large)
			if errors.Is(err, rpctypes.ErrNoSpace) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	apitest.Eventually(t, "etcd's own refusal is explained", func() bool {
		err := w.add(t, w.admin, "default", 0)
		return isFull(err)
	})
	apitest.Eventually(t, "/readyz fails", func() bool { return w.get(t, "/readyz/store-space") == http.StatusInternalServerError })
	for check, want := range map[string]int{"ping": http.StatusOK, "store-space": http.StatusNotFound} {
		if got := w.get(t, "/livez/"+check); got != want {
			t.Errorf("/livez/%s: %d, want %d", check, got, want)
		}
	}
	w.Restart(t)
	w.admin = apitest.Client(t, w.Admin(t))
	w.inEtcd(t, func(client *clientv3.Client) {
		if _, err := client.Delete(t.Context(), "/other/", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
	})
	apitest.Eventually(t, "an administrator can write after a restart", func() bool { return w.add(t, w.admin, "kube-public", 0) == nil })
	w.fill(t, w.admin, "default")
	for _, namespace := range []string{"default", "b", "c"} {
		w.empty(t, w.admin, namespace)
	}
	w.eventuallyWrites(t)
	apitest.Eventually(t, "/readyz is well", func() bool { return w.get(t, "/readyz") == http.StatusOK })
}

// inEtcd calls work with a client of the server's own etcd.
func (w *spaceWorld) inEtcd(t *testing.T, work func(*clientv3.Client)) {
	t.Helper()
	remote, err := etcd.Local(datadir.Dir(w.Config.DataDir).Etcd())
	if err != nil {
		t.Fatal(err)
	}
	client, err := remote.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	work(client)
}

func (w *spaceWorld) newEditor(t *testing.T, namespace string) {
	t.Helper()
	w.bindEditor(t, namespace)
	w.Grant(t, "editor-"+namespace, rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"", "coordination.k8s.io"}, Resources: []string{"configmaps", "leases"}})
}

// bindEditor makes a namespace, and the rights of its editor there.
func (w *spaceWorld) bindEditor(t *testing.T, namespace string) {
	t.Helper()
	apitest.NewNamespace(t, w.admin, namespace)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit"},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "editor-" + namespace}},
	}
	if _, err := w.admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *spaceWorld) editor(t *testing.T, namespace string) kubernetes.Interface {
	t.Helper()
	return apitest.Client(t, w.As(t, "editor-"+namespace))
}

func (w *spaceWorld) add(t *testing.T, as kubernetes.Interface, namespace string, i int) error {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)}, Data: map[string]string{"data": large}}
	_, err := as.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	return err
}

// fill adds objects until the store refuses, and returns the error.
func (w *spaceWorld) fill(t *testing.T, as kubernetes.Interface, namespace string) string {
	t.Helper()
	for i := 1; i < 200; i++ {
		err := w.add(t, as, namespace, i)
		if isFull(err) {
			return err.Error()
		}
		// On a slow disk, etcd takes longer to make its file smaller than writes wait.
		busy := err != nil && strings.Contains(err.Error(), "etcdserver: request timed out")
		if err != nil && !busy && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	t.Fatalf("namespace %s was never refused", namespace)
	return ""
}

func (w *spaceWorld) empty(t *testing.T, as kubernetes.Interface, namespace string) {
	t.Helper()
	if err := as.CoreV1().ConfigMaps(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventuallyWrites waits until a tenant that has nothing can write.
func (w *spaceWorld) eventuallyWrites(t *testing.T) {
	t.Helper()
	editor := w.editor(t, "d")
	var refusal error
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		err := w.add(t, editor, "d", 0)
		if isFull(err) {
			refusal = err
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("there is no room: %v, %v", err, refusal)
	}
	w.empty(t, editor, "d")
}

func (w *spaceWorld) get(t *testing.T, path string) int {
	t.Helper()
	code := 0
	w.admin.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).StatusCode(&code)
	return code
}

func isFull(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage && status.Status().Reason == "InsufficientStorage"
}

// An external etcd, whose file is not made smaller, has room again, too.
func TestExternalStoreSpace(t *testing.T) {
	t.Parallel()
	store := startExternalEtcd(t, func(cfg *embed.Config) { cfg.QuotaBackendBytes = 256 << 20 })
	s := apitest.Start(t, func(cfg *server.Config) { cfg.Etcd, cfg.Etcd.QuotaMiB = store, 32 })
	w := spaceWorld{s, apitest.Client(t, s.Admin(t))}
	w.newEditor(t, "d")
	editor := w.editor(t, "d")
	if refusal := w.fill(t, editor, "d"); !strings.Contains(refusal, "of 32 MiB (etcd.quotaMiB)") {
		t.Errorf("the refusal is %q", refusal)
	}
	if err := w.add(t, w.admin, "default", 0); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	w.empty(t, editor, "d")
	w.eventuallyWrites(t)
}
