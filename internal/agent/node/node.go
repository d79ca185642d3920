// Package node registers the host as a Node and shows that it is alive.
package node

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/buildinfo"
)

const (
	// Taint keeps schedulers from sending pods to a host that runs none.
	Taint = "certplane.dev/agent"
	// leaseSeconds is how long the host counts as alive after it was heard of;
	// a kubelet's number. A quarter of it is the time between two signs.
	leaseSeconds = 40
	// heartbeat is the time between two reports of the status.
	heartbeat = 5 * time.Minute
	// maxAge is how long what is known of the Node is believed.
	maxAge = 30 * time.Second
)

// Node is the host in the API. It is safe for concurrent use.
type Node struct {
	// Name is that of the object.
	Name   string
	client kubernetes.Interface
	clock  clock.WithTicker

	mu     sync.Mutex
	known  *corev1.Node
	seenAt time.Time
}

// New returns the host of a name. Nothing is registered yet.
func New(name string, client kubernetes.Interface, clock clock.WithTicker) *Node {
	return &Node{Name: name, client: client, clock: clock}
}

// Current returns the object, which it makes if there is none. It asks the
// server at most twice a minute: the object hardly ever changes.
func (n *Node) Current(ctx context.Context) (*corev1.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known != nil && n.clock.Since(n.seenAt) < maxAge {
		return n.known, nil
	}
	found, err := n.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = n.client.CoreV1().Nodes().Create(ctx, n.object(), metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("registering node %s: %w", n.Name, err)
	}
	n.known, n.seenAt = found, n.clock.Now()
	return found, nil
}

// Forget makes the next Current ask the server: somebody says that the object
// is another one now.
func (n *Node) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = nil
}

func (n *Node) object() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			corev1.LabelHostname: n.Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
		}},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: Taint, Effect: corev1.TaintEffectNoExecute}}},
		Status: n.status(corev1.NodeStatus{}),
	}
}

// status is the status after a sign of life.
func (n *Node) status(status corev1.NodeStatus) corev1.NodeStatus {
	now := metav1.NewTime(n.clock.Now())
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "AgentReady", Message: "certplane agent keeps this host's certificates",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	for _, condition := range status.Conditions {
		if condition.Type == ready.Type && condition.Status == ready.Status {
			ready.LastTransitionTime = condition.LastTransitionTime
		}
	}
	status.Conditions = []corev1.NodeCondition{ready}
	status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.Name}}
	status.NodeInfo.OperatingSystem, status.NodeInfo.Architecture = runtime.GOOS, runtime.GOARCH
	status.NodeInfo.KubeletVersion = "certplane-agent " + buildinfo.Read().Version
	return status
}

// Run shows that the host is alive until ctx ends.
func (n *Node) Run(ctx context.Context) {
	var group wait.Group
	defer group.Wait()
	signs := lease.NewController(n.clock, n.client, n.Name, leaseSeconds, func() {
		klog.FromContext(ctx).Info("The server does not hear that this host is alive", "node", n.Name)
	}, leaseSeconds*time.Second/4, n.Name, corev1.NamespaceNodeLease, n.own)
	group.StartWithContext(ctx, signs.Run)
	wait.JitterUntilWithContext(ctx, n.report, heartbeat, 0.1, true)
}

// own makes the lease go with the Node.
func (n *Node) own(lease *coordinationv1.Lease) error {
	node, err := n.Current(context.Background())
	if err != nil {
		return err
	}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	return nil
}

func (n *Node) report(ctx context.Context) {
	node, err := n.Current(ctx)
	if err == nil {
		updated := node.DeepCopy()
		updated.Status = n.status(updated.Status)
		updated.ResourceVersion = "" // the status is the host's alone
		_, err = n.client.CoreV1().Nodes().UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Info("Could not report the status of this host", "node", n.Name, "err", err)
	}
}
