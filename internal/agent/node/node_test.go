package node

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMemory(t *testing.T) {
	for _, tc := range []struct {
		reason, meminfo string
		want            int64
	}{
		{"as Linux has it", "MemTotal:       16316412 kB\nMemFree:         1 kB\n", 16316412 * 1024},
		{"not the first line", "X: 1 kB\nMemTotal: 2 kB\n", 2048},
		{"something else", "MemTotal: much\n", 0},
		{"nothing", "", 0},
	} {
		if got := memory(tc.meminfo); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.reason, got, tc.want)
		}
	}
}

// kubectl describe divides by the resources of a node: without resources it
// would show minus 2^63 %.
func TestResources(t *testing.T) {
	status := New("edge-1", nil, clocktesting.NewFakeClock(time.Now())).object().Status
	for _, list := range []corev1.ResourceList{status.Capacity, status.Allocatable} {
		if list.Cpu().MilliValue() <= 0 || list.Memory().Value() <= 0 {
			t.Errorf("the host has %v", list)
		}
	}
}

// A host that another client has marked as not ready reports that it is ready.
func TestDoubts(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	client := fake.NewClientset()
	n := New("edge-1", client, clock)
	ready := func() corev1.ConditionStatus {
		t.Helper()
		node, err := client.CoreV1().Nodes().Get(context.Background(), "edge-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node.Status.Conditions[0].Status
	}
	if n.isDoubted(t.Context()) || ready() != corev1.ConditionTrue {
		t.Fatalf("a host that has just registered is %s", ready())
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "edge-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	clock.Step(maxAge)
	if !n.isDoubted(t.Context()) {
		t.Fatal("nobody sees that the host is not ready")
	}
	n.report(t.Context())
	if n.isDoubted(t.Context()) || ready() != corev1.ConditionTrue {
		t.Errorf("the host is %s, and does not say otherwise", ready())
	}
}
