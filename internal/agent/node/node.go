// Package node registers the host as a Node and reports that it is alive.
package node

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/apimachinery/lease"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/api/agenthost"
	"github.com/certplane/certplane/internal/process/buildinfo"
)

const (
	// leaseSeconds is how long the host counts as alive after a renewal of its lease; it is
	// kubelet's value. The host renews the lease after a quarter of its duration.
	leaseSeconds = 40
	// heartbeat is the time between two reports of the status, as long as the Node in the
	// API is ready.
	heartbeat = 5 * time.Minute
	// maxAge is how long the cached Node is used.
	maxAge = 30 * time.Second
	// CallTimeout is how long a heartbeat may take. A server that does not
	// answer in that time counts as away.
	CallTimeout = 10 * time.Second
)

// Node is the host in the API. It is safe for concurrent use.
type Node struct {
	// Name is the name of the Node object.
	Name   string
	client kubernetes.Interface
	clock  clock.WithTicker

	mu      sync.Mutex
	known   *corev1.Node
	seenAt  time.Time
	problem string // why the Node is not known
}

// New returns the host with this name. The node is not registered yet.
func New(name string, client kubernetes.Interface, clock clock.WithTicker) *Node {
	return &Node{Name: name, client: client, clock: clock}
}

// Current returns the Node object, and creates it if it does not exist. It asks
// the server at most twice a minute, as the object hardly ever changes.
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
		err = fmt.Errorf("registering node %s: %w", n.Name, err)
		n.problem = err.Error()
		return nil, err
	}
	n.known, n.seenAt, n.problem = found, n.clock.Now(), ""
	return found, nil
}

// Problem returns why the host is not registered; empty if it is, as far as is
// known.
func (n *Node) Problem() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.problem
}

// Forget makes the next Current ask the server. The caller has a sign that the
// object was replaced.
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
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: agenthost.Taint, Effect: corev1.TaintEffectNoExecute}}},
		Status: n.status(corev1.NodeStatus{}),
	}
}

// status returns the status after a heartbeat.
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
	// kubectl divides the resources that pods use by the capacity.
	status.Capacity = resources()
	status.Allocatable = status.Capacity
	status.NodeInfo.OperatingSystem, status.NodeInfo.Architecture = runtime.GOOS, runtime.GOARCH
	status.NodeInfo.KubeletVersion = agenthost.VersionPrefix + buildinfo.Read().Version
	return status
}

// resources returns the resources of the host. The capacity for pods is not
// among them, as the host runs none.
func resources() corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI)}
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if bytes := memory(string(data)); bytes > 0 {
			list[corev1.ResourceMemory] = *resource.NewQuantity(bytes, resource.BinarySI)
		}
	}
	return list
}

// memory returns the size of the memory from /proc/meminfo (proc_meminfo(5)),
// or 0.
func memory(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		var kibibytes int64
		if n, err := fmt.Sscanf(line, "MemTotal: %d kB", &kibibytes); n == 1 && err == nil {
			return kibibytes * 1024
		}
	}
	return 0
}

// Run reports that the host is alive until ctx ends.
func (n *Node) Run(ctx context.Context) {
	var group wait.Group
	defer group.Wait()
	signs := lease.NewController(n.clock, n.client, n.Name, leaseSeconds, func() {}, leaseSeconds*time.Second/4, n.Name, corev1.NamespaceNodeLease, n.own)
	group.StartWithContext(klog.NewContext(ctx, quiet(klog.FromContext(ctx))), signs.Run)
	var reported time.Time
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if now := n.clock.Now(); now.Sub(reported) >= heartbeat || n.isDoubted(ctx) {
			n.report(ctx)
			reported = now
		}
	}, leaseSeconds*time.Second/4, 0.1, true)
}

// isDoubted reports whether the Node in the API is not ready because the server received no
// report for a while.
func (n *Node) isDoubted(ctx context.Context) bool {
	node, err := n.Current(ctx)
	if err != nil {
		return false // registering the host reports the error
	}
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return ready == nil || ready.Status != corev1.ConditionTrue
}

// own makes the Node the owner of the lease, so that both are deleted together.
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
		updated.ResourceVersion = "" // only the host writes the status
		_, err = n.client.CoreV1().Nodes().UpdateStatus(ctx, updated, metav1.UpdateOptions{})
		n.Forget() // the object has changed
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Could not report the status of this host", "node", n.Name, "err", err)
	}
}

// quiet returns a logger for code that retries: that the server is away is
// logged once, by the observer of all calls.
func quiet(logger klog.Logger) klog.Logger { return logger.WithSink(quietSink{logger.GetSink()}) }

type quietSink struct{ logr.LogSink }

func (s quietSink) Error(err error, message string, values ...any) {
	if s.Enabled(2) {
		s.Info(2, message, append(values, "err", err)...)
	}
}

func (s quietSink) WithValues(values ...any) logr.LogSink {
	return quietSink{s.LogSink.WithValues(values...)}
}

func (s quietSink) WithName(name string) logr.LogSink { return quietSink{s.LogSink.WithName(name)} }
