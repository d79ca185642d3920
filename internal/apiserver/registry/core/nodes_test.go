package core_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

func TestNodes(t *testing.T) {
	w := startOn(t, apitest.Start(t))
	nodes := w.core.Nodes()
	taint := func(effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: "example.com/k", Effect: effect}
	}
	for _, tt := range []struct {
		reason string
		node   corev1.Node
		want   string
	}{
		{"a bad name", corev1.Node{ObjectMeta: named("A")}, "422 metadata.name: FieldValueInvalid"},
		{"a taint without effect", corev1.Node{ObjectMeta: named("n"), Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint("")}}},
			"422 metadata.taints[0].effect: FieldValueRequired"},
		{"a taint twice", corev1.Node{ObjectMeta: named("n"), Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint("NoExecute"), taint("NoExecute")}}},
			"422 metadata.taints[1]: FieldValueDuplicate"},
		{"no range of addresses", corev1.Node{ObjectMeta: named("n"), Spec: corev1.NodeSpec{PodCIDR: "x", PodCIDRs: []string{"x"}}},
			"422 spec.podCIDRs[0]: FieldValueInvalid"},
		{"less than nothing", corev1.Node{ObjectMeta: named("n"), Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{"cpu": resource.MustParse("-1")}}},
			"422 status.capacity.cpu: FieldValueInvalid, 422 status.allocatable.cpu: FieldValueInvalid"},
	} {
		if _, err := nodes.Create(t.Context(), &tt.node, create); causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}

	ranges := &corev1.Node{ObjectMeta: named("ranges"), Spec: corev1.NodeSpec{PodCIDRs: []string{"10.0.0.0/24", "fd00::/64"}}}
	if made, err := nodes.Create(t.Context(), ranges, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil || made.Spec.PodCIDR != "10.0.0.0/24" {
		t.Errorf("the older name of the first range: %+v, %v", made, err)
	}

	node, err := nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
		Spec:       corev1.NodeSpec{ProviderID: "example://n"},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{"cpu": resource.MustParse("4")},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.0"},
		},
	}, create)
	if err != nil {
		t.Fatal(err)
	}
	if cpu := node.Status.Allocatable["cpu"]; cpu.String() != "4" {
		t.Errorf("a kubelet registers with a status, whose allocatable cpu is %s", cpu.String())
	}
	node.Status.NodeInfo.KubeletVersion = "v1.37.0"
	node.Spec.Unschedulable = true
	if node, err = nodes.Update(t.Context(), node, update); err != nil || node.Status.NodeInfo.KubeletVersion != "v1.36.0" || !node.Spec.Unschedulable {
		t.Errorf("an update of the node: %+v, %v", node, err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Spec.Unschedulable = false
	if node, err = nodes.UpdateStatus(t.Context(), node, update); err != nil || len(node.Status.Conditions) != 1 || !node.Spec.Unschedulable {
		t.Errorf("an update of the status: %+v, %v", node, err)
	}
	got := apitest.Table(t, w.Admin(t), "/api/v1/nodes")
	if !strings.HasPrefix(got, "Name|Status|Roles|Age|Version\nn|Ready,SchedulingDisabled|edge,worker|") || !strings.HasSuffix(got, "|v1.36.0\n") {
		t.Errorf("table:\n%s", got)
	}
	list, err := nodes.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.unschedulable=true"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("unschedulable nodes: %v, %v", list.Items, err)
	}

	node.Spec.ProviderID = "example://m"
	if _, err := nodes.Update(t.Context(), node, update); causes(err) != "422 spec.providerID: FieldValueForbidden" {
		t.Errorf("another machine: %s", causes(err))
	}
	node.Spec.ProviderID, node.Spec.DoNotUseExternalID = "example://n", "x"
	if _, err := nodes.Update(t.Context(), node, update); causes(err) != "422 spec: FieldValueForbidden" {
		t.Errorf("another field: %s", causes(err))
	}
}
