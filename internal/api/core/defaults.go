package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func addDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&corev1.Secret{}, func(obj any) { setSecretDefaults(obj.(*corev1.Secret)) })
	scheme.AddTypeDefaultingFunc(&corev1.SecretList{}, func(obj any) { each(obj.(*corev1.SecretList).Items, setSecretDefaults) })
	scheme.AddTypeDefaultingFunc(&corev1.Namespace{}, func(obj any) { setNamespaceDefaults(obj.(*corev1.Namespace)) })
	scheme.AddTypeDefaultingFunc(&corev1.NamespaceList{}, func(obj any) { each(obj.(*corev1.NamespaceList).Items, setNamespaceDefaults) })
	scheme.AddTypeDefaultingFunc(&corev1.Node{}, func(obj any) { setNodeDefaults(obj.(*corev1.Node)) })
	scheme.AddTypeDefaultingFunc(&corev1.NodeList{}, func(obj any) { each(obj.(*corev1.NodeList).Items, setNodeDefaults) })
	scheme.AddTypeDefaultingFunc(&corev1.Pod{}, func(obj any) { setPodDefaults(obj.(*corev1.Pod)) })
	scheme.AddTypeDefaultingFunc(&corev1.PodList{}, func(obj any) { each(obj.(*corev1.PodList).Items, setPodDefaults) })
	scheme.AddTypeDefaultingFunc(&corev1.Service{}, func(obj any) { setServiceDefaults(obj.(*corev1.Service)) })
	scheme.AddTypeDefaultingFunc(&corev1.ServiceList{}, func(obj any) { each(obj.(*corev1.ServiceList).Items, setServiceDefaults) })
}

func each[T any](items []T, do func(*T)) {
	for i := range items {
		do(&items[i])
	}
}

// setSecretDefaults also merges stringData, so that everything after the
// decoder, including admission, finds a secret's content in one place.
func setSecretDefaults(secret *corev1.Secret) {
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	MergeStringData(secret)
}

// MergeStringData moves stringData, which is write-only, into data.
func MergeStringData(secret *corev1.Secret) {
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = make(map[string][]byte, len(secret.StringData))
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

// setNamespaceDefaults adds the label with the namespace's name, which
// selectors use. If the name is still to be generated, LabelNamespace adds the
// label. A namespace without a phase is active.
func setNamespaceDefaults(namespace *corev1.Namespace) {
	if namespace.Status.Phase == "" {
		namespace.Status.Phase = corev1.NamespaceActive
	}
	if namespace.Name != "" {
		LabelNamespace(namespace)
	}
}

// LabelNamespace adds the label with the name of namespace.
func LabelNamespace(namespace *corev1.Namespace) {
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	namespace.Labels[corev1.LabelMetadataName] = namespace.Name
}

// setNodeDefaults makes all capacity of a node allocatable if nothing else is
// set. podCIDR is the older name of the first of podCIDRs, and takes
// precedence.
func setNodeDefaults(node *corev1.Node) {
	spec := &node.Spec
	switch {
	case spec.PodCIDR == "" && len(spec.PodCIDRs) > 0:
		spec.PodCIDR = spec.PodCIDRs[0]
	case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
		spec.PodCIDRs = []string{spec.PodCIDR}
	}
	if len(node.Status.Allocatable) == 0 {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
}
