package server_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

// Nodes and Services are stored where Kubernetes stores them. Those that an
// older version has stored in another place are found after a start.
func TestNodesAndServicesAreWhereKubernetesHasThem(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	core := apitest.Client(t, s.Admin(t)).CoreV1()
	node, err := core.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := core.Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	former := map[string]string{
		"/registry/nodes/n1":             s.Stored(t, "/registry/minions/n1"),
		"/registry/services/default/web": s.Stored(t, "/registry/services/specs/default/web"),
	}
	if err := core.Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := core.Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for key, stored := range former {
		s.Store(t, key, stored)
	}
	s.Restart(t)
	core = apitest.Client(t, s.Admin(t)).CoreV1()
	if found, err := core.Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err != nil || found.UID != node.UID {
		t.Errorf("the Node is %v, %v", found, err)
	}
	if found, err := core.Services("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || found.UID != service.UID {
		t.Errorf("the Service is %v, %v", found, err)
	}
}
