package node_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// A node that has only its certificate can register, renew its lease, and read
// what its pods need for as long as they are bound to it.
func TestNode(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	kubelet := apitest.Client(t, s.Login(t, "system:node:n", "system:nodes"))

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	registered := must(kubelet.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}))(t)
	registered.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	must(kubelet.CoreV1().Nodes().UpdateStatus(t.Context(), registered, metav1.UpdateOptions{}))(t)
	must(kubelet.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}))(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	must(kubelet.CoordinationV1().Leases("kube-node-lease").Create(t.Context(), lease, metav1.CreateOptions{}))(t)
	own := apitest.NewCSR(t, "own", certificatesv1.KubeAPIServerClientKubeletSignerName,
		pki.Subject{CommonName: "system:node:n", Organizations: []string{"system:nodes"}}, apitest.NewKey(t))
	apitest.Create(t, kubelet, own)

	createSecret(t, admin, "used")
	createSecret(t, admin, "unused")
	pod := must(admin.CoreV1().Pods("default").Create(t.Context(), podWith("used"), metav1.CreateOptions{}))(t)
	apitest.Eventually(t, "the node reads the Secret of its pod", func() bool { return canRead(t, kubelet, "used") })
	if canRead(t, kubelet, "unused") {
		t.Error("a node reads a Secret that none of its pods names")
	}
	must(kubelet.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n"}))(t)
	pod.Status.Phase = corev1.PodRunning
	must(kubelet.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))(t)

	if err := admin.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the node cannot read the Secret of a pod that is gone", func() bool { return !canRead(t, kubelet, "used") })
}

// A host without a kubelet registers the pods of the accounts that it may host,
// and gets tokens only for these.
func TestHostedPods(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	host := apitest.Client(t, s.Login(t, "system:node:n", "system:nodes"))
	node := must(host.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}))(t)
	for _, name := range []string{"web", "bank"} {
		must(admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	}
	create := func(account string) (*corev1.Pod, error) {
		pod := podWith("")
		pod.GenerateName, pod.Name, pod.Spec.Volumes = account+"-", "", nil
		pod.Spec.ServiceAccountName = account
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(node, corev1.SchemeGroupVersion.WithKind("Node"))}
		pod.OwnerReferences[0].BlockOwnerDeletion = nil
		pod.Spec.Volumes = []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t", Audience: "vault"}}},
		}}}}
		return host.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	}
	if _, err := create("web"); !apierrors.IsForbidden(err) {
		t.Fatalf("before anything is granted: %v, want 403", err)
	}
	grantHosting(t, admin, "web")
	var pod *corev1.Pod
	apitest.Eventually(t, "the node may host pods of an account", func() (ok bool) {
		var err error
		if pod, err = create("web"); err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	if _, err := create("bank"); !apierrors.IsForbidden(err) {
		t.Errorf("a pod of another account: %v, want 403", err)
	}
	token := func(account string) error {
		_, err := host.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{"vault"},
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		}}, metav1.CreateOptions{})
		return err
	}
	apitest.Eventually(t, "the node has a token of the account", func() bool { return token("web") == nil })
	if err := token("bank"); !apierrors.IsForbidden(err) {
		t.Errorf("a token of another account: %v, want 403", err)
	}
}

// grantHosting lets node n host an account of namespace default.
func grantHosting(t *testing.T, admin kubernetes.Interface, account string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "host-" + account},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"host"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{account}}},
	}
	must(admin.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}))(t)
	must(admin.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "system:node:n"}},
	}, metav1.CreateOptions{}))(t)
}

// What a node must not do, whichever component refuses it.
func TestNodeIsRefused(t *testing.T) {
	s := apitest.Start(t)
	kubelet := apitest.Client(t, s.Login(t, "system:node:n", "system:nodes"))
	for reason, attempt := range forbidden(t, kubelet) {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want 403", reason, err)
		}
	}
}

// If NodeRestriction is off, the content of a node's writes is not checked.
func TestWithoutNodeRestriction(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Admission.DisabledPlugins = []string{"NodeRestriction"} })
	kubelet := apitest.Client(t, s.Login(t, "system:node:n", "system:nodes"))
	for _, reason := range []string{"another's object", "a label that pods are kept to", "another's certificate"} {
		if err := forbidden(t, kubelet)[reason](); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// forbidden are writes of node n.
func forbidden(t *testing.T, kubelet kubernetes.Interface) map[string]func() error {
	return map[string]func() error{
		"another's object": func() error {
			_, err := kubelet.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
			return err
		},
		"a label that pods are kept to": func() error {
			labels := map[string]string{"node-restriction.kubernetes.io/tier": "pci"}
			_, err := kubelet.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}, metav1.CreateOptions{})
			return err
		},
		"another's certificate": func() error {
			csr := apitest.NewCSR(t, "theirs", certificatesv1.KubeAPIServerClientKubeletSignerName,
				pki.Subject{CommonName: "system:node:m", Organizations: []string{"system:nodes"}}, apitest.NewKey(t))
			_, err := kubelet.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{})
			return err
		},
		"all Secrets": func() error {
			_, err := kubelet.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"all pods": func() error {
			_, err := kubelet.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"a pod of its own making": func() error {
			_, err := kubelet.CoreV1().Pods("default").Create(t.Context(), podWith("used"), metav1.CreateOptions{})
			return err
		},
		"a leader's lease": func() error {
			_, err := kubelet.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
			return err
		},
		"giving itself rights": func() error {
			_, err := kubelet.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
			return err
		},
	}
}

func podWith(secret string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			NodeName:   "n",
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}},
		},
	}
}

func createSecret(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(admin.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}))(t)
}

func canRead(t *testing.T, kubelet kubernetes.Interface, secret string) bool {
	t.Helper()
	_, err := kubelet.CoreV1().Secrets("default").Get(t.Context(), secret, metav1.GetOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	return err == nil
}

func must[T any](obj T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
}
