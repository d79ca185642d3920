package nodelifecycle

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

// The reason and messages that Kubernetes' node lifecycle controller sets on
// silent nodes.
const (
	reasonUnknown  = "NodeStatusUnknown"
	messageUnknown = "Kubelet stopped posting node status."
	reasonNever    = "NodeStatusNeverUpdated"
	messageNever   = "Kubelet never posted node status."
)

// stale are the conditions that are unknown once a node is silent.
var stale = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// signs are the last signs of life of a node, by its own clock.
type signs struct {
	renewed, posted time.Time
}

// signsOf reads the signs of life of a node; lease may be nil.
func signsOf(node *corev1.Node, lease *coordinationv1.Lease) signs {
	var s signs
	if lease != nil && lease.Spec.RenewTime != nil {
		s.renewed = lease.Spec.RenewTime.Time
	}
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		s.posted = ready.LastHeartbeatTime.Time
	}
	return s
}

// observation is when, by the clock of this process, a node has given its last
// sign of life: the clocks of nodes are not reliable.
type observation struct {
	signs signs
	at    time.Time
}

// observe updates the observation of a node after another check.
func (o observation) observe(s signs, now time.Time) observation {
	if !o.at.IsZero() && o.signs == s {
		return o
	}
	return observation{signs: s, at: now}
}

// silenced returns the conditions of a node that has been silent for too long, and whether
// they differ from its present ones. It does not add conditions that the node never had,
// except Ready, which clients read.
func silenced(node *corev1.Node, now time.Time) ([]corev1.NodeCondition, bool) {
	status := corev1.NodeStatus{Conditions: slices.Clone(node.Status.Conditions)}
	changed := false
	for _, kind := range stale {
		_, condition := nodeutil.GetNodeCondition(&status, kind)
		switch {
		case condition == nil && kind == corev1.NodeReady:
			status.Conditions = append(status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: reasonNever, Message: messageNever,
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
			changed = true
		case condition != nil && condition.Status != corev1.ConditionUnknown:
			condition.Status, condition.Reason, condition.Message = corev1.ConditionUnknown, reasonUnknown, messageUnknown
			condition.LastTransitionTime = metav1.NewTime(now)
			changed = true
		}
	}
	return status.Conditions, changed
}
