package core

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/core"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// nodes describes Node: a kubelet registers its node together with a status.
func nodes() kind.Kind[corev1.Node, corev1.NodeList] {
	return kind.Kind[corev1.Node, corev1.NodeList]{
		Version: corev1.SchemeGroupVersion, Plural: "nodes", Singular: "node",
		ShortNames: []string{"no"},
		Validate:   core.ValidateNode,
		Update: kind.Update[corev1.Node]{
			PrepareUpdate:  func(node, old *corev1.Node) { node.Status = old.Status },
			ValidateUpdate: core.ValidateNodeUpdate,
			Resets:         []string{"status"},
		},
		Subresources: map[string]kind.Update[corev1.Node]{
			"status": {
				PrepareUpdate:  func(node, old *corev1.Node) { node.Spec = old.Spec },
				ValidateUpdate: core.ValidateNodeUpdate,
				Resets:         []string{"spec"},
			},
		},
		Fields: core.NodeFields,
		Table:  nodeTable(),
	}
}

func nodeTable() kind.Table[corev1.Node] {
	info := corev1.NodeSystemInfo{}.SwaggerDoc()
	addresses := corev1.NodeStatus{}.SwaggerDoc()["addresses"]
	return kind.Table[corev1.Node]{
		Columns: []metav1.TableColumnDefinition{
			kind.Name(),
			kind.Column("Status", "The status of the node"),
			kind.Column("Roles", "The roles of the node"),
			kind.AgeColumn(),
			kind.Column("Version", info["kubeletVersion"]),
			kind.Wide("Internal-IP", addresses),
			kind.Wide("External-IP", addresses),
			kind.Wide("OS-Image", info["osImage"]),
			kind.Wide("Kernel-Version", info["kernelVersion"]),
			kind.Wide("Container-Runtime", info["containerRuntimeVersion"]),
		},
		Cells: func(node *corev1.Node, now time.Time) []any {
			info := node.Status.NodeInfo
			return []any{
				node.Name, nodeStatus(node), orNone(nodeRoles(node)), kind.Age(node.CreationTimestamp, now), info.KubeletVersion,
				orNone(nodeAddress(node, corev1.NodeInternalIP)), orNone(nodeAddress(node, corev1.NodeExternalIP)),
				orUnknown(info.OSImage), orUnknown(info.KernelVersion), orUnknown(info.ContainerRuntimeVersion),
			}
		},
	}
}

func nodeStatus(node *corev1.Node) string {
	status := "Unknown"
	for _, condition := range node.Status.Conditions {
		switch {
		case condition.Type != corev1.NodeReady:
		case condition.Status == corev1.ConditionTrue:
			status = "Ready"
		default:
			status = "NotReady"
		}
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// nodeRoles returns the roles from the labels: one label for each role, or the
// older single one.
func nodeRoles(node *corev1.Node) string {
	var roles []string
	for label, value := range node.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if label == "kubernetes.io/role" && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return strings.Join(slices.Compact(roles), ",")
}

func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, address := range node.Status.Addresses {
		if address.Type == kind {
			return address.Address
		}
	}
	return ""
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}

func orUnknown(text string) string {
	if text == "" {
		return "<unknown>"
	}
	return text
}
