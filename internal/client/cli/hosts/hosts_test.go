package hosts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/agenthost"
)

var now = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func in(d time.Duration) *time.Time {
	t := now.Add(d)
	return &t
}

func node(name string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.AddDate(0, 0, -3))},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: agenthost.Taint, Effect: corev1.TaintEffectNoExecute}}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "certplane-agent v1.2.3"},
		},
	}
}

func lease(node string, age time.Duration) coordinationv1.Lease {
	return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(-age)}}}
}

func pod(node, name, missing string, certificates ...agenthost.Certificate) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{agenthost.ManifestAnnotation: "x"}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Message: missing}, agenthost.ConditionOf(certificates)}},
	}
}

func TestTable(t *testing.T) {
	kubelets := node("kubelet", corev1.ConditionTrue)
	kubelets.Spec.Taints = nil
	mirror := pod("edge-1", "a-mirror", "not an agent's")
	mirror.Annotations = nil
	full := pod("edge-4", "web", "tls: writing volume /etc/nginx/tls: no space left on device")
	full.Status.Conditions[0].Status = corev1.ConditionFalse
	listed := pod("edge-1", "web", "", agenthost.Certificate{Volume: "tls", Signer: "example.com/a", NotAfter: in(48 * time.Hour)},
		agenthost.Certificate{Volume: "tls", Signer: "example.com/b", NotAfter: in(24 * time.Hour)})
	listed.Status.Conditions = append(listed.Status.Conditions, agenthost.ListsConditionOf([]agenthost.RevocationLists{
		{Volume: "tls", Signer: "example.com/a", Path: "a.pem", Numbers: []string{"7"}, ThisUpdate: *in(-time.Hour), NextUpdate: *in(time.Hour)},
		{Volume: "tls", Signer: "example.com/b", Path: "b.pem", Numbers: []string{"7"}, ThisUpdate: *in(-2 * time.Hour), NextUpdate: *in(time.Hour)},
		{Volume: "tls", Signer: "example.com/a", Path: "crl.der", Error: "no list of CN=root"},
	}))
	hosts := describe(
		[]corev1.Node{node("edge-2", corev1.ConditionUnknown), node("edge-1", corev1.ConditionTrue), node("edge-4", corev1.ConditionTrue), node("edge-3", corev1.ConditionTrue), kubelets},
		[]coordinationv1.Lease{lease("edge-1", 5*time.Second), lease("edge-2", time.Hour), lease("kubelet", 0)},
		[]corev1.Pod{
			listed,
			mirror,
			pod("edge-2", "web", "", agenthost.Certificate{Volume: "tls", Signer: "example.com/a", NotAfter: in(-time.Hour), Error: "Denied: No: not you"}),
			pod("edge-2", "db", "tls: secret password: there is none"),
			full,
		},
	)
	want := `NAME     STATE      LAST SEEN   AGENT    CERTIFICATES   FIRST EXPIRY   FIRST CERTIFICATE            OLDEST LIST   AGE   LAST ERROR
edge-1   Ready      5s ago      v1.2.3   2              in 24h         shop/web tls example.com/b   120m ago      3d    shop/web: tls: crl.der: no list of CN=root
edge-2   NotReady   60m ago     v1.2.3   1              60m ago        shop/web tls example.com/a   -             3d    shop/db: tls: secret password: there is none
edge-3   Ready      -           v1.2.3   0              -              -                            -             3d    -
edge-4   Degraded   -           v1.2.3   0              -              -                            -             3d    shop/web: tls: writing volume /etc/nginx/tls: no space left on device
`
	if diff := cmp.Diff(want, Text(hosts, true, now)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// What a host says of itself cannot control the terminal of who lists it.
func TestControlCharacters(t *testing.T) {
	hosts := describe([]corev1.Node{node("edge-1", corev1.ConditionTrue)}, nil, []corev1.Pod{pod("edge-1", "web", "\x1b[2Jall is well\n")})
	if got := Text(hosts, false, now); strings.Contains(got, "\x1b") || !strings.Contains(got, `shop/web: \x1b[2Jall is well`) {
		t.Errorf("the table is %q", got)
	}
}
