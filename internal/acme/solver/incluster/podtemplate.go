package incluster

import (
	"cmp"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
)

// podTemplate returns what an issuer wants of the pods, or nil.
func podTemplate(ch *acmev1.Challenge) *acmev1.ACMEChallengeSolverHTTP01IngressPodTemplate {
	if http01 := ch.Spec.Solver.HTTP01; http01.Ingress != nil {
		return http01.Ingress.PodTemplate
	}
	return ch.Spec.Solver.HTTP01.GatewayHTTPRoute.PodTemplate
}

// applyTemplate changes a pod as an issuer wants it. The labels of its identity
// stay: without them the pod would not be found again.
func applyTemplate(pod *corev1.Pod, template *acmev1.ACMEChallengeSolverHTTP01IngressPodTemplate, identity map[string]string) {
	if template == nil {
		return
	}
	pod.Labels = overlay(pod.Labels, template.Labels, identity)
	pod.Annotations = overlay(pod.Annotations, template.Annotations)
	to, from := &pod.Spec, template.Spec
	to.NodeSelector = overlay(to.NodeSelector, from.NodeSelector)
	to.Tolerations = append(to.Tolerations, from.Tolerations...)
	to.ImagePullSecrets = append(to.ImagePullSecrets, from.ImagePullSecrets...)
	to.PriorityClassName = cmp.Or(from.PriorityClassName, to.PriorityClassName)
	to.ServiceAccountName = cmp.Or(from.ServiceAccountName, to.ServiceAccountName)
	to.Affinity = cmp.Or(from.Affinity, to.Affinity)
	if from.SecurityContext != nil {
		mergeSecurity(to.SecurityContext, *from.SecurityContext)
	}
	if from.Resources != nil {
		resources := &to.Containers[0].Resources
		resources.Requests = mergeResources(resources.Requests, from.Resources.Requests)
		resources.Limits = mergeResources(resources.Limits, from.Resources.Limits)
	}
}

// mergeSecurity sets the fields that a template sets. The others keep their
// safe defaults.
func mergeSecurity(to *corev1.PodSecurityContext, from acmev1.ACMEChallengeSolverHTTP01IngressPodSecurityContext) {
	to.SELinuxOptions = cmp.Or(from.SELinuxOptions, to.SELinuxOptions)
	to.RunAsUser = cmp.Or(from.RunAsUser, to.RunAsUser)
	to.RunAsGroup = cmp.Or(from.RunAsGroup, to.RunAsGroup)
	to.RunAsNonRoot = cmp.Or(from.RunAsNonRoot, to.RunAsNonRoot)
	to.FSGroup = cmp.Or(from.FSGroup, to.FSGroup)
	to.FSGroupChangePolicy = cmp.Or(from.FSGroupChangePolicy, to.FSGroupChangePolicy)
	to.SeccompProfile = cmp.Or(from.SeccompProfile, to.SeccompProfile)
	to.SupplementalGroups = append(to.SupplementalGroups, from.SupplementalGroups...)
	to.Sysctls = append(to.Sysctls, from.Sysctls...)
}

func mergeResources(to, from corev1.ResourceList) corev1.ResourceList {
	merged := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{to, from} {
		for name, quantity := range list {
			merged[name] = quantity
		}
	}
	return merged
}
