package namespace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// conditions returns why a namespace cannot be deleted yet, in the words of
// Kubernetes. Unchanged parts of each condition are kept from current.
func conditions(current []corev1.NamespaceCondition, left content, now metav1.Time) []corev1.NamespaceCondition {
	updated := slices.Clone(current)
	for _, wanted := range []corev1.NamespaceCondition{
		condition(corev1.NamespaceDeletionDiscoveryFailure, left.undiscovered != nil,
			"DiscoveryFailed", fmt.Sprintf("Discovery failed for some groups: %v", left.undiscovered),
			"ResourcesDiscovered", "All resources successfully discovered"),
		condition(corev1.NamespaceDeletionGVParsingFailure, false, "", "",
			"ParsedGroupVersions", "All legacy kube types successfully parsed"),
		condition(corev1.NamespaceDeletionContentFailure, len(left.failed) > 0,
			"ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(left.failed), join(left.failed)),
			"ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		condition(corev1.NamespaceContentRemaining, len(left.objects) > 0,
			"SomeResourcesRemain", "Some resources are remaining: "+describeObjects(left.objects),
			"ContentRemoved", "All content successfully removed"),
		condition(corev1.NamespaceFinalizersRemaining, len(left.finalizers) > 0,
			"SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+describeFinalizers(left.finalizers),
			"ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	} {
		updated = set(updated, wanted, now)
	}
	return updated
}

func condition(kind corev1.NamespaceConditionType, bad bool, badReason, badMessage, goodReason, goodMessage string) corev1.NamespaceCondition {
	if bad {
		return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: badReason, Message: badMessage}
	}
	return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: goodReason, Message: goodMessage}
}

// set replaces the condition of wanted's type.
func set(conditions []corev1.NamespaceCondition, wanted corev1.NamespaceCondition, now metav1.Time) []corev1.NamespaceCondition {
	wanted.LastTransitionTime = now
	i := slices.IndexFunc(conditions, func(c corev1.NamespaceCondition) bool { return c.Type == wanted.Type })
	if i < 0 {
		return append(conditions, wanted)
	}
	if conditions[i].Status == wanted.Status && conditions[i].Reason == wanted.Reason && conditions[i].Message == wanted.Message {
		return conditions
	}
	conditions[i] = wanted
	return conditions
}

func describeObjects(objects map[schema.GroupResource]int) string {
	resources := slices.SortedFunc(maps.Keys(objects), func(a, b schema.GroupResource) int {
		return cmp.Compare(a.String(), b.String())
	})
	var parts []string
	for _, resource := range resources {
		parts = append(parts, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource, resource.Group, objects[resource]))
	}
	return strings.Join(parts, ", ")
}

func describeFinalizers(finalizers map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(finalizers)) {
		parts = append(parts, fmt.Sprintf("%s in %d resource instances", name, finalizers[name]))
	}
	return strings.Join(parts, ", ")
}

// join lists errors in a fixed order, so that conditions do not flap.
func join(errs []error) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
