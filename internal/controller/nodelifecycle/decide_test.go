package nodelifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
)

var (
	created = metav1.NewTime(time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC))
	heard   = metav1.NewTime(created.Add(time.Minute))
	now     = created.Add(time.Hour)
)

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Reason: "Own", Message: "The host's.", LastHeartbeatTime: heard, LastTransitionTime: heard}
}

func unknown(kind corev1.NodeConditionType) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
		LastHeartbeatTime: heard, LastTransitionTime: metav1.NewTime(now),
	}
}

func TestSilenced(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		has     []corev1.NodeCondition
		want    []corev1.NodeCondition
		changed bool
	}{
		{"a host with an agent", []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionTrue)},
			[]corev1.NodeCondition{unknown(corev1.NodeReady)}, true},
		{"it was not ready before", []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionFalse)},
			[]corev1.NodeCondition{unknown(corev1.NodeReady)}, true},
		{"it is known already", []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionUnknown)},
			[]corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionUnknown)}, false},
		{"a kubelet's conditions, and one that is not its", []corev1.NodeCondition{
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse), condition("Mood", corev1.ConditionTrue), condition(corev1.NodeReady, corev1.ConditionTrue),
		}, []corev1.NodeCondition{
			unknown(corev1.NodeMemoryPressure), condition("Mood", corev1.ConditionTrue), unknown(corev1.NodeReady),
		}, true},
		{"nobody has ever said anything", nil, []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
			LastHeartbeatTime: created, LastTransitionTime: metav1.NewTime(now),
		}}, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}, Status: corev1.NodeStatus{Conditions: tc.has}}
			before := node.DeepCopy()
			got, changed := silenced(node, now)
			if diff := cmp.Diff(tc.want, got); diff != "" || changed != tc.changed {
				t.Errorf("changed is %v, conditions (-want +got):\n%s", changed, diff)
			}
			if diff := cmp.Diff(before, node); diff != "" {
				t.Errorf("the node itself was changed:\n%s", diff)
			}
		})
	}
}

// A sign of life is a change, whatever the clock of the node says.
func TestObserve(t *testing.T) {
	renewed := func(at time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at}}}
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionTrue)}}}
	posted := node.DeepCopy()
	posted.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(heard.Add(time.Second))
	first := observation{}.observe(signsOf(node, renewed(now)), now)
	later := now.Add(time.Minute)
	for _, tc := range []struct {
		reason string
		signs  signs
		want   time.Time
	}{
		{"nothing new", signsOf(node, renewed(now)), now},
		{"the lease is renewed", signsOf(node, renewed(now.Add(10*time.Second))), later},
		{"the clock of the node goes back", signsOf(node, renewed(now.Add(-time.Hour))), later},
		{"the status is posted", signsOf(posted, renewed(now)), later},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := first.observe(tc.signs, later).at; !got.Equal(tc.want) {
				t.Errorf("last seen at %v, want %v", got, tc.want)
			}
		})
	}
	if got := (observation{}).observe(signsOf(&corev1.Node{}, nil), now).at; !got.Equal(now) {
		t.Errorf("a node without a sign is seen first at %v, want %v", got, now)
	}
}

func TestSettings(t *testing.T) {
	if err := DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	short := Settings{GracePeriod: metav1.Duration{Duration: time.Millisecond}}
	if err := short.Validate(); err == nil || err.Error() != "nodeLifecycle.gracePeriod: 1ms must be at least 1s" {
		t.Errorf("a period that no host can keep: %v", err)
	}
}

func TestTakenNode(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ reason, signer, requester, commonName, want string }{
		{"a bootstrap token", certificatesv1.KubeAPIServerClientKubeletSignerName, "system:bootstrap:abcdef", "system:node:edge-1", "edge-1"},
		{"another node", certificatesv1.KubeAPIServerClientKubeletSignerName, "system:node:edge-2", "system:node:edge-1", "edge-1"},
		{"the node itself", certificatesv1.KubeAPIServerClientKubeletSignerName, "system:node:edge-1", "system:node:edge-1", ""},
		{"no node", certificatesv1.KubeAPIServerClientKubeletSignerName, "system:bootstrap:abcdef", "alice", ""},
		{"a serving certificate", certificatesv1.KubeletServingSignerName, "alice", "system:node:edge-1", ""},
	} {
		request, err := pki.NewRequest(pki.Subject{CommonName: tt.commonName}, key)
		if err != nil {
			t.Fatal(err)
		}
		csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: tt.signer, Username: tt.requester, Request: request,
		}}
		if got := takenNode(csr); got != tt.want {
			t.Errorf("%s: node %q, want %q", tt.reason, got, tt.want)
		}
	}
}
