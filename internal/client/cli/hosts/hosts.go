// Package hosts lists the hosts of agents with the state of their certificates.
package hosts

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/api/agenthost"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

// Host is the host of an agent.
type Host struct {
	Name string `json:"name"`
	// State is Ready if the agent reports, NotReady if it has stopped, and Degraded if it
	// reports that files of a pod are missing or cannot be written.
	State string `json:"state"`
	// LastSeen is the time when the agent last renewed its lease.
	LastSeen     *time.Time    `json:"lastSeen,omitempty"`
	Registered   time.Time     `json:"registered"`
	AgentVersion string        `json:"agentVersion,omitempty"`
	Certificates []Certificate `json:"certificates"`
	// RevocationLists are the files of the host with revocation lists.
	RevocationLists []RevocationLists `json:"revocationLists,omitempty"`
	// Error is the first problem that the agent has reported, of a certificate
	// or of a pod.
	Error string `json:"error,omitempty"`
}

// Certificate is a certificate of a pod on a host.
type Certificate struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	agenthost.Certificate
}

// RevocationLists is a file of a pod on a host.
type RevocationLists struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	agenthost.RevocationLists
}

// IsReady reports whether the agent of the host reports.
func (h Host) IsReady() bool { return h.State != NotReady }

// The states of hosts.
const (
	ready    = "Ready"
	degraded = "Degraded"
	NotReady = "NotReady"
)

// List returns all hosts, by name.
func List(ctx context.Context, client kubernetes.Interface) ([]Host, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, exit.Advise("listing the nodes", err)
	}
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, exit.Advise("listing the leases of nodes", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, exit.Advise("listing the pods of hosts", err)
	}
	return describe(nodes.Items, leases.Items, pods.Items), nil
}

// describe returns the hosts among the nodes, by name.
func describe(nodes []corev1.Node, leases []coordinationv1.Lease, pods []corev1.Pod) []Host {
	seen := map[string]*time.Time{}
	for _, lease := range leases {
		if renewed := lease.Spec.RenewTime; renewed != nil {
			seen[lease.Name] = &renewed.Time
		}
	}
	onNode := map[string][]*corev1.Pod{}
	for i := range pods {
		if pod := &pods[i]; pod.Annotations[agenthost.ManifestAnnotation] != "" {
			onNode[pod.Spec.NodeName] = append(onNode[pod.Spec.NodeName], pod)
		}
	}
	hosts := []Host{}
	for i := range nodes {
		node := &nodes[i]
		if !isHost(node) {
			continue
		}
		host := Host{
			Name: node.Name, State: stateOf(node), LastSeen: seen[node.Name], Registered: node.CreationTimestamp.Time,
			AgentVersion: strings.TrimPrefix(node.Status.NodeInfo.KubeletVersion, agenthost.VersionPrefix),
			Certificates: []Certificate{},
		}
		host.add(onNode[node.Name])
		hosts = append(hosts, host)
	}
	slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return hosts
}

func isHost(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == agenthost.Taint })
}

func stateOf(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return ready
		}
	}
	return NotReady
}

// add adds the certificates, the revocation lists and the first problem of pods.
func (h *Host) add(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		of := pod.Namespace + "/" + pod.Name + ": "
		for _, c := range agenthost.CertificatesOf(pod.Status) {
			h.Certificates = append(h.Certificates, Certificate{Namespace: pod.Namespace, Pod: pod.Name, Certificate: c})
			if c.Error != "" && h.Error == "" {
				h.Error = of + c.Volume + ": " + c.Error
			}
		}
		for _, l := range agenthost.RevocationListsOf(pod.Status) {
			h.RevocationLists = append(h.RevocationLists, RevocationLists{Namespace: pod.Namespace, Pod: pod.Name, RevocationLists: l})
			if l.Error != "" && h.Error == "" {
				h.Error = of + l.Volume + ": " + l.Path + ": " + l.Error
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type != corev1.PodReady {
				continue
			}
			if condition.Message != "" && h.Error == "" {
				h.Error = of + condition.Message
			}
			if condition.Status == corev1.ConditionFalse && h.State == ready {
				h.State = degraded
			}
		}
	}
}

// next returns the certificate that expires first, or nil without certificates.
func (h Host) next() *Certificate {
	var first *Certificate
	for i := range h.Certificates {
		if c := &h.Certificates[i]; c.NotAfter != nil && (first == nil || c.NotAfter.Before(*first.NotAfter)) {
			first = c
		}
	}
	return first
}

// oldestList returns when the oldest revocation list of the host begins; nil without lists.
func (h Host) oldestList() *time.Time {
	var oldest *time.Time
	for i := range h.RevocationLists {
		if l := &h.RevocationLists[i]; len(l.Numbers) > 0 && (oldest == nil || l.ThisUpdate.Before(*oldest)) {
			oldest = &l.ThisUpdate
		}
	}
	return oldest
}
