package podcertificaterequest_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
)

// inNamespace creates a pod with a certificate source on a node, and that
// node's request for it.
func (w world) inNamespace(t testing.TB, namespace, pod, node string) (apitest.BoundPod, *podRequest) {
	t.Helper()
	bound := apitest.NewBoundPod(t, w.admin, namespace, pod, node, apitest.PodSource(signerName))
	return bound, bound.Request(t, 0, apitest.NewKey(t))
}

// asNode returns a client of a node.
func (w world) asNode(t testing.TB, node string) kubernetes.Interface {
	t.Helper()
	return apitest.Client(t, w.As(t, "system:node:"+node, "system:nodes"))
}

func send(t testing.TB, client kubernetes.Interface, request *podRequest) (*podRequest, error) {
	t.Helper()
	return client.CertificatesV1beta1().PodCertificateRequests(request.Namespace).Create(t.Context(), request, metav1.CreateOptions{})
}

func edited(request *podRequest, edit func(*podRequest)) *podRequest {
	request = request.DeepCopy()
	edit(request)
	return request
}

// A node requests the certificates of its own pods immediately: the server
// already knows everything that it has just sent to the node.
func TestServerNodeCreates(t *testing.T) {
	w := start(t)
	node1, node2 := w.asNode(t, "node1"), w.asNode(t, "node2")
	_, request := w.inNamespace(t, "default", "p", "node1")
	_, elsewhere := w.inNamespace(t, "default", "q", "node2")
	must(send(t, node1, request))(t)
	must(send(t, node2, elsewhere))(t)

	for _, tt := range []struct {
		reason  string
		who     kubernetes.Interface
		request *podRequest
		durable bool // 403: the node gives up
	}{
		{"node2 for a pod of node1", node2, edited(request, func(r *podRequest) { r.Spec.NodeName, r.Spec.NodeUID = elsewhere.Spec.NodeName, elsewhere.Spec.NodeUID }), true},
		{"node2 in the name of node1", node2, request, true},
		{"in the name of a node that is not there", node2, edited(request, func(r *podRequest) { r.Spec.NodeName = "nosuch" }), true},
		{"for a pod that is not there", node1, edited(request, func(r *podRequest) { r.Spec.PodName = "nosuch" }), false},
		{"for the pod of before", node1, edited(request, func(r *podRequest) { r.Spec.PodUID = "old" }), false},
		{"as the node of before", node1, edited(request, func(r *podRequest) { r.Spec.NodeUID = "old" }), false},
		{"as the account of before", node1, edited(request, func(r *podRequest) { r.Spec.ServiceAccountUID = "old" }), false},
		{"as an account that the pod does not have", node1, edited(request, func(r *podRequest) { r.Spec.ServiceAccountName = "other" }), true},
		{"from a signer that the pod does not name", node1, edited(request, func(r *podRequest) { r.Spec.SignerName = "example.com/other" }), true},
		{"for longer than the pod asks", node1, edited(request, func(r *podRequest) { r.Spec.MaxExpirationSeconds = seconds(7862400) }), true},
		{"with annotations that the pod does not have", node1, edited(request, func(r *podRequest) { r.Spec.UnverifiedUserAnnotations = map[string]string{"a.b/c": "d"} }), true},
		{"an administrator for a pod that is not there", w.admin, edited(request, func(r *podRequest) { r.Spec.PodName = "nosuch" }), false},
		{"an administrator for another account", w.admin, edited(request, func(r *podRequest) { r.Spec.ServiceAccountName = "other" }), true},
	} {
		_, err := send(t, tt.who, tt.request)
		if err == nil || apierrors.IsForbidden(err) != tt.durable || !tt.durable && !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}
	must(send(t, w.admin, request))(t)
}

// What nodes do with requests besides creating them.
func TestServerNodeReads(t *testing.T) {
	w := start(t)
	node1, node2 := w.asNode(t, "node1"), w.asNode(t, "node2")
	bound, request := w.inNamespace(t, "default", "p", "node1")
	made := must(send(t, node1, request))(t)
	must(requests(node1).Get(t.Context(), made.Name, metav1.GetOptions{}))(t)
	must(node1.CertificatesV1().PodCertificateRequests("default").Get(t.Context(), made.Name, metav1.GetOptions{}))(t)
	own := metav1.ListOptions{FieldSelector: "spec.nodeName=node1"}
	if found := must(node1.CertificatesV1().PodCertificateRequests("").List(t.Context(), own))(t); len(found.Items) != 1 {
		t.Errorf("sees %d requests", len(found.Items))
	}
	must(requests(node1).Watch(t.Context(), own))(t).Stop()
	apitest.Eventually(t, "the node sees the account of its pod", func() bool {
		account, err := node1.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil && account.UID == bound.Account.UID
	})

	for reason, attempt := range map[string]func() error{
		"another node's request": func() error {
			_, err := requests(node2).Get(t.Context(), made.Name, metav1.GetOptions{})
			return err
		},
		"the requests of all": func() error {
			_, err := requests(node1).List(t.Context(), metav1.ListOptions{})
			return err
		},
		"the requests of another node": func() error {
			_, err := requests(node2).List(t.Context(), own)
			return err
		},
		"watching another node": func() error {
			_, err := requests(node2).Watch(t.Context(), own)
			return err
		},
		"labels are no reason": func() error {
			_, err := requests(node1).List(t.Context(), metav1.ListOptions{LabelSelector: "node=node1"})
			return err
		},
		"answering itself": func() error {
			_, err := requests(node1).UpdateStatus(t.Context(), deniedOf(made), metav1.UpdateOptions{})
			return err
		},
		"the status alone": func() error {
			return node1.CertificatesV1().RESTClient().Get().Namespace("default").Resource("podcertificaterequests").Name(made.Name).SubResource("status").Do(t.Context()).Error()
		},
		"changing it": func() error {
			_, err := requests(node1).Update(t.Context(), made, metav1.UpdateOptions{})
			return err
		},
		"deleting it": func() error { return requests(node1).Delete(t.Context(), made.Name, metav1.DeleteOptions{}) },
		"the account of another's pods": func() error {
			_, err := node2.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
			return err
		},
	} {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want 403", reason, err)
		}
	}
}

// A node with additional rights from a role is still only a node.
func TestServerNodeWithMoreRights(t *testing.T) {
	w := start(t)
	w.Grant(t, "system:node:node1", apitest.Allow("*", "podcertificaterequests podcertificaterequests/status signers"))
	_, request := w.inNamespace(t, "default", "p", "node1")
	node1 := w.asNode(t, "node1")
	made := must(send(t, node1, request))(t)
	for reason, err := range map[string]error{
		"deleting":  requests(node1).Delete(t.Context(), made.Name, metav1.DeleteOptions{}),
		"answering": second(requests(node1).UpdateStatus(t.Context(), deniedOf(made), metav1.UpdateOptions{})),
		"changing":  second(requests(node1).Update(t.Context(), edited(made, func(r *podRequest) { r.Labels = map[string]string{"a": "b"} }), metav1.UpdateOptions{})),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want 403", reason, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Namespaces and names are not confused: pods foo/bar and bar/foo on two nodes,
// with requests of the same name.
func TestServerNamespacesAndNames(t *testing.T) {
	w := start(t)
	for _, namespace := range []string{"foo", "bar"} {
		apitest.NewNamespace(t, w.admin, namespace)
	}
	_, first := w.inNamespace(t, "foo", "bar", "node1")
	_, second := w.inNamespace(t, "bar", "foo", "node2")
	node1, node2 := w.asNode(t, "node1"), w.asNode(t, "node2")
	for _, request := range []*podRequest{first, second} {
		request.Name, request.GenerateName = request.Spec.PodName, ""
	}
	must(send(t, node1, first))(t)
	must(send(t, node2, second))(t)
	reads := func(node kubernetes.Interface, namespace, name string) bool {
		_, err := node.CertificatesV1().PodCertificateRequests(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s/%s: %v", namespace, name, err)
		}
		return err == nil
	}
	if !reads(node1, "foo", "bar") || !reads(node2, "bar", "foo") || reads(node1, "bar", "foo") || reads(node2, "foo", "bar") {
		t.Error("the nodes do not read just their own requests")
	}
	if err := w.admin.CertificatesV1().PodCertificateRequests("foo").Delete(t.Context(), "bar", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if reads(node1, "foo", "bar") || !reads(node2, "bar", "foo") {
		t.Error("deleting one has changed what the other node reads")
	}
}

// A request is deleted with its pod, which owns it.
func TestServerRequestGoesWithItsPod(t *testing.T) {
	w := start(t)
	bound, request := w.inNamespace(t, "default", "p", "node1")
	made := must(send(t, w.asNode(t, "node1"), request))(t)
	if err := w.admin.CoreV1().Pods("default").Delete(t.Context(), bound.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the request is gone", func() bool {
		_, err := requests(w.admin).Get(t.Context(), made.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// The old version can be disabled; objects stored in it remain.
func TestServerWithoutV1beta1(t *testing.T) {
	w := start(t, anyPod)
	w.create(t, "kept", apitest.NewKey(t))
	w.Config.API.RuntimeConfig = map[string]bool{"certificates.k8s.io/v1beta1": false}
	w.Restart(t)
	w.admin = apitest.Client(t, w.Admin(t))
	must(w.admin.CertificatesV1().PodCertificateRequests("default").Get(t.Context(), "kept", metav1.GetOptions{}))(t)
	if _, err := requests(w.admin).Get(t.Context(), "kept", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("v1beta1: %v", err)
	}
}
