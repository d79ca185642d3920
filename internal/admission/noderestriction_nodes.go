package admission

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
)

// admitNode lets a node update its own object, except for the fields that
// control it: taints, owners and the labels that a node must not set.
func (p *nodeRestriction) admitNode(_ context.Context, name string, a admission.Attributes) error {
	requested := a.GetName()
	var node *corev1.Node
	if a.GetOperation() != admission.Delete {
		var ok bool
		if node, ok = a.GetObject().(*corev1.Node); !ok {
			return unexpected(a)
		}
	}
	if a.GetOperation() == admission.Create {
		if requested == "" {
			requested = node.Name
		}
		if labels := forbiddenLabels(changedLabels(node.Labels, nil)); len(labels) > 0 {
			return forbidden(a, "node %q is not allowed to set the following labels: %s", name, strings.Join(labels, ", "))
		}
		// Stricter than Kubernetes: an object with owners could be deleted by
		// garbage collection, and recreated without its taints.
		if len(node.OwnerReferences) > 0 {
			return forbidden(a, "node %q is not allowed to modify ownerReferences", name)
		}
		//lint:ignore SA1019 clients of old nodes may still send it
		if node.Spec.ConfigSource != nil {
			return forbidden(a, "node %q is not allowed to create pods with a non-nil configSource", name)
		}
	}
	if requested != name {
		return forbidden(a, "node %q is not allowed to modify node %q", name, requested)
	}
	if a.GetOperation() == admission.Update {
		return admitNodeUpdate(name, node, a)
	}
	return nil
}

func admitNodeUpdate(name string, node *corev1.Node, a admission.Attributes) error {
	stored, ok := a.GetOldObject().(*corev1.Node)
	if !ok {
		return unexpected(a)
	}
	if !equality.Semantic.DeepEqual(node.Spec.Taints, stored.Spec.Taints) {
		return forbidden(a, "node %q is not allowed to modify taints", name)
	}
	// An owner that does not exist would cause the node's object to be deleted,
	// and recreated without its taints.
	if !equality.Semantic.DeepEqual(node.OwnerReferences, stored.OwnerReferences) {
		return forbidden(a, "node %q is not allowed to modify ownerReferences", name)
	}
	if labels := forbiddenLabels(changedLabels(node.Labels, stored.Labels)); len(labels) > 0 {
		return forbidden(a, "is not allowed to modify labels: %s", strings.Join(labels, ", "))
	}
	return nil
}

// changedLabels returns the keys that were added, changed or removed, sorted.
func changedLabels(now, before map[string]string) []string {
	changed := map[string]bool{}
	for key, value := range now {
		if old, ok := before[key]; !ok || old != value {
			changed[key] = true
		}
	}
	for key := range before {
		if _, ok := now[key]; !ok {
			changed[key] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// forbiddenLabels returns the labels that a node must not choose for itself:
// they decide which pods are scheduled to it.
func forbiddenLabels(keys []string) []string {
	var found []string
	for _, key := range keys {
		prefix, _, prefixed := strings.Cut(key, "/")
		if !prefixed {
			continue
		}
		restricted := within(prefix, corev1.LabelNamespaceNodeRestriction)
		reserved := within(prefix, "kubernetes.io") || within(prefix, "k8s.io")
		if restricted || reserved && !isKubeletLabel(prefix, key) {
			found = append(found, key)
		}
	}
	return found
}

// isKubeletLabel reports whether the label is one of the Kubernetes labels that
// describe a machine.
func isKubeletLabel(prefix, key string) bool {
	return slices.Contains(kubeletLabels, key) ||
		within(prefix, corev1.LabelNamespaceSuffixKubelet) || within(prefix, corev1.LabelNamespaceSuffixNode)
}

var kubeletLabels = []string{
	corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable,
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// within reports whether a label's prefix is the domain or a subdomain of it.
func within(prefix, domain string) bool {
	return prefix == domain || strings.HasSuffix(prefix, "."+domain)
}
