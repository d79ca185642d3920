package nodelifecycle_test

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

const grace = 2 * time.Second

// A host whose lease is not renewed any more is not ready. A host that renews
// its lease stays ready, and one that comes back reports that itself.
func TestSilentNodes(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.NodeLifecycle.GracePeriod.Duration = grace })
	admin := apitest.Client(t, s.Admin(t))
	for _, name := range []string{"alive", "dead"} {
		register(t, admin, name)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go renew(ctx, t, admin, "alive")

	apitest.Eventually(t, "the silent host is not ready", func() bool {
		ready := readyOf(t, admin, "dead")
		return ready.Status == corev1.ConditionUnknown && ready.Reason == "NodeStatusUnknown" && ready.Message == "Kubelet stopped posting node status."
	})
	if ready := readyOf(t, admin, "alive"); ready.Status != corev1.ConditionTrue {
		t.Errorf("the host that renews its lease is %v", ready)
	}
	apitest.Eventually(t, "an event tells of it", func() bool {
		events, err := admin.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=dead"})
		if err != nil {
			t.Fatal(err)
		}
		return len(events.Items) == 1 && events.Items[0].Reason == "NodeNotReady"
	})
	metrics, err := admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`node_collector_zone_size{zone=""} 2`, `node_collector_unhealthy_nodes_in_zone{zone=""} 1`} {
		if !strings.Contains(string(metrics), line) {
			t.Errorf("the metrics have no %s", line)
		}
	}

	// The host is back, and reports that as kubelets and agents do.
	post(t, admin, "dead")
	go renew(ctx, t, admin, "dead")
	// A host that falls silent after that is noticed later.
	register(t, admin, "dead-too")
	apitest.Eventually(t, "another silent host is not ready", func() bool {
		return readyOf(t, admin, "dead-too").Status == corev1.ConditionUnknown
	})
	if ready := readyOf(t, admin, "dead"); ready.Status != corev1.ConditionTrue {
		t.Errorf("the host that is back is %v", ready)
	}
}

func register(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	post(t, admin, name)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NowMicro())},
	}
	if _, err := admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// post writes the status of a healthy host.
func post(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}}
	node.ResourceVersion = ""
	if _, err := admin.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// renew renews a lease many times in a grace period until ctx ends.
func renew(ctx context.Context, t *testing.T, admin kubernetes.Interface, name string) {
	tick := time.NewTicker(grace / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		patch := `{"spec": {"renewTime": "` + time.Now().UTC().Format(metav1.RFC3339Micro) + `"}}`
		_, err := admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		if err != nil && ctx.Err() == nil {
			t.Errorf("renewing the lease of %s: %v", name, err)
		}
	}
}

func readyOf(t *testing.T, admin kubernetes.Interface, name string) corev1.NodeCondition {
	t.Helper()
	node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition
		}
	}
	return corev1.NodeCondition{}
}
