package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// setServiceDefaults fills in the fields that clients expect. The address is
// not one of them: certplane does not allocate any.
func setServiceDefaults(service *corev1.Service) {
	spec := &service.Spec
	setDefault(&spec.Type, corev1.ServiceTypeClusterIP)
	setAffinityDefaults(spec)
	each(spec.Ports, func(port *corev1.ServicePort) {
		setDefault(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	})
	if spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer {
		setDefault(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if hasClusterIP(spec) {
		setDefaultPtr(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		setDefaultPtr(&spec.AllocateLoadBalancerNodePorts, true)
		each(service.Status.LoadBalancer.Ingress, func(ingress *corev1.LoadBalancerIngress) {
			if ingress.IP != "" {
				setDefaultPtr(&ingress.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		})
	}
}

func setAffinityDefaults(spec *corev1.ServiceSpec) {
	setDefault(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		config := spec.SessionAffinityConfig
		if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
	}
}
