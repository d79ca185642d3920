package core

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// SecretFields and the functions below return the fields that field selectors support, in
// addition to names and namespaces.
func SecretFields(secret *corev1.Secret) fields.Set {
	return fields.Set{"type": string(secret.Type)}
}

// NamespaceFields: see SecretFields.
func NamespaceFields(namespace *corev1.Namespace) fields.Set {
	return fields.Set{"status.phase": string(namespace.Status.Phase)}
}

// NodeFields: see SecretFields.
func NodeFields(node *corev1.Node) fields.Set {
	return fields.Set{"spec.unschedulable": strconv.FormatBool(node.Spec.Unschedulable)}
}

// PodFields: see SecretFields.
func PodFields(pod *corev1.Pod) fields.Set {
	return fields.Set{
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             pod.Status.PodIP,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

// ServiceFields: see SecretFields.
func ServiceFields(service *corev1.Service) fields.Set {
	return fields.Set{"spec.clusterIP": service.Spec.ClusterIP, "spec.type": string(service.Spec.Type)}
}

// addFieldLabels registers the selectable fields: the library's default
// refuses everything but names and namespaces.
func addFieldLabels(scheme *runtime.Scheme) error {
	for kind, selectable := range map[string]fields.Set{
		"Secret":    SecretFields(&corev1.Secret{}),
		"Namespace": NamespaceFields(&corev1.Namespace{}),
		"Node":      NodeFields(&corev1.Node{}),
		"Pod":       PodFields(&corev1.Pod{}),
		"Service":   ServiceFields(&corev1.Service{}),
	} {
		check := func(label, value string) (string, string, error) {
			if selectable.Has(label) || label == "metadata.name" || label == "metadata.namespace" {
				return label, value, nil
			}
			return "", "", fmt.Errorf("field label not supported: %s", label)
		}
		if err := scheme.AddFieldLabelConversionFunc(corev1.SchemeGroupVersion.WithKind(kind), check); err != nil {
			return err
		}
	}
	return nil
}
