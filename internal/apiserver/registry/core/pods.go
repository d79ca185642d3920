package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/certplane/certplane/internal/api/core"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// pods describes Pod. Pods are records of workloads that run elsewhere: identities can be
// bound to them. A deleted pod is removed immediately, without waiting for a node.
func pods() kind.Kind[corev1.Pod, corev1.PodList] {
	return kind.Kind[corev1.Pod, corev1.PodList]{
		Version: corev1.SchemeGroupVersion, Plural: "pods", Singular: "pod",
		ShortNames: []string{"po"}, Categories: []string{"all"},
		Namespaced: true, ShowsDeleted: true,
		PrepareCreate: func(pod *corev1.Pod) {
			pod.Generation = 1
			setAccount(pod)
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosClass(&pod.Spec)}
		},
		Validate: core.ValidatePod,
		Warn:     core.PodWarnings,
		Update: kind.Update[corev1.Pod]{
			PrepareUpdate: func(pod, old *corev1.Pod) {
				pod.Status = old.Status
				pod.Generation = old.Generation
				if !equality.Semantic.DeepEqual(pod.Spec, old.Spec) {
					pod.Generation++
				}
			},
			ValidateUpdate: core.ValidatePodUpdate,
			Resets:         []string{"status"},
		},
		Subresources: map[string]kind.Update[corev1.Pod]{
			"status": {
				PrepareUpdate: func(pod, old *corev1.Pod) {
					pod.Spec = old.Spec
					pod.Generation = old.Generation
					// A node must not choose the owners or the end of a pod,
					// nor its quality of service class, which follows from the
					// spec.
					pod.OwnerReferences = old.OwnerReferences
					pod.DeletionTimestamp = old.DeletionTimestamp
					pod.Status.QOSClass = old.Status.QOSClass
				},
				ValidateUpdate: core.ValidatePodStatusUpdate,
				Resets:         []string{"spec"},
			},
		},
		Fields: core.PodFields,
		Table:  podTable(),
	}
}

// setAccount sets the default service account of a pod that names none, as
// Kubernetes' admission does. A mirror pod, which runs without the API server,
// has none.
func setAccount(pod *corev1.Pod) {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror || pod.Spec.ServiceAccountName != "" {
		return
	}
	pod.Spec.ServiceAccountName = defaultAccount
	pod.Spec.DeprecatedServiceAccount = defaultAccount
}

// defaultAccount is the service account that every namespace has.
const defaultAccount = "default"

// qosClass returns the quality of service class, which decides how a node treats a pod when
// it runs out of memory.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	any, all := false, true
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, container := range containers {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				limit, request := container.Resources.Limits[name], container.Resources.Requests[name]
				any = any || !limit.IsZero() || !request.IsZero()
				all = all && !limit.IsZero() && limit.Equal(request)
			}
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
