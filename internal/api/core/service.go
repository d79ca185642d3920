package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// maxAffinitySeconds is how long a client can be kept on one pod: a day.
const maxAffinitySeconds = 24 * 60 * 60

var serviceSpecPath = field.NewPath("spec")

// ValidateService returns the errors of a new service: of its name, its
// selector and its ports. certplane does not route traffic, so addresses are
// not validated.
func ValidateService(service *corev1.Service) field.ErrorList {
	errs := metadata.Validate(&service.ObjectMeta, true, validation.NameIsDNSLabel, metadataPath)
	spec := &service.Spec
	errs = append(errs, oneOf(spec.Type, serviceSpecPath.Child("type"),
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	errs = append(errs, validateServiceAddresses(spec)...)
	errs = append(errs, validateServicePorts(spec)...)
	errs = append(errs, metav1validation.ValidateLabels(spec.Selector, serviceSpecPath.Child("selector"))...)
	errs = append(errs, validateAffinity(spec)...)
	return append(errs, validateTrafficPolicies(spec)...)
}

// ValidateServiceUpdate returns the errors of replacing old by service.
func ValidateServiceUpdate(service, old *corev1.Service) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&service.ObjectMeta, &old.ObjectMeta, metadataPath)
	errs = append(errs, ValidateService(service)...)
	was, is := old.Spec.ClusterIP, service.Spec.ClusterIP
	if hasClusterIP(&old.Spec) && hasClusterIP(&service.Spec) && was != "" && is != was {
		errs = append(errs, field.Invalid(serviceSpecPath.Child("clusterIPs").Index(0), is, "may not change once set"))
	}
	return errs
}

// ValidateServiceStatusUpdate returns the errors of replacing old by service
// through /status.
func ValidateServiceStatusUpdate(service, old *corev1.Service) field.ErrorList {
	return validation.ValidateObjectMetaUpdate(&service.ObjectMeta, &old.ObjectMeta, metadataPath)
}

// SyncClusterIPs makes clusterIP, the older name of the first of clusterIPs,
// consistent with the list, for clients that write only one of them. An update
// that omits both keeps those of old, which is nil at creation.
func SyncClusterIPs(service, old *corev1.Service) {
	spec := &service.Spec
	if old != nil && hasClusterIP(spec) && hasClusterIP(&old.Spec) && spec.ClusterIP == "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIP, spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

func hasClusterIP(spec *corev1.ServiceSpec) bool { return spec.Type != corev1.ServiceTypeExternalName }

// validateServiceAddresses requires that a service with an external name has no
// cluster IP.
func validateServiceAddresses(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	addresses := serviceSpecPath.Child("clusterIPs")
	switch {
	case !hasClusterIP(spec) && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Forbidden(addresses, "may not be set for ExternalName services"))
	case len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(addresses, spec.ClusterIPs, "first value must match `clusterIP`"))
	case isHeadless(spec) && (spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer):
		errs = append(errs, field.Invalid(addresses.Index(0), corev1.ClusterIPNone, fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
	}
	for i, ip := range spec.ClusterIPs {
		if ip != corev1.ClusterIPNone {
			errs = append(errs, utilvalidation.IsValidIP(addresses.Index(i), ip)...)
		}
	}
	for i, ip := range spec.ExternalIPs {
		errs = append(errs, utilvalidation.IsValidIP(serviceSpecPath.Child("externalIPs").Index(i), ip)...)
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		errs = append(errs, validateExternalName(spec.ExternalName, serviceSpecPath.Child("externalName"))...)
	}
	return errs
}

func validateExternalName(name string, fldPath *field.Path) field.ErrorList {
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return field.ErrorList{field.Required(fldPath, "")}
	}
	var errs field.ErrorList
	for _, problem := range utilvalidation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(fldPath, name, problem))
	}
	return errs
}

// isHeadless reports whether a service provides only names for its pods.
func isHeadless(spec *corev1.ServiceSpec) bool { return spec.ClusterIP == corev1.ClusterIPNone }

func validateServicePorts(spec *corev1.ServiceSpec) field.ErrorList {
	fldPath := serviceSpecPath.Child("ports")
	if len(spec.Ports) == 0 && !isHeadless(spec) && spec.Type != corev1.ServiceTypeExternalName {
		return field.ErrorList{field.Required(fldPath, "")}
	}
	type number struct {
		port     int32
		protocol corev1.Protocol
	}
	var errs field.ErrorList
	names, numbers := map[string]bool{}, map[number]bool{}
	for i := range spec.Ports {
		port, path := &spec.Ports[i], fldPath.Index(i)
		if port.Name != "" || len(spec.Ports) > 1 {
			errs = append(errs, validateName(port.Name, names, path.Child("name"))...)
		}
		errs = append(errs, validateServicePort(port, path)...)
		if port.NodePort != 0 && (spec.Type == corev1.ServiceTypeClusterIP || spec.Type == corev1.ServiceTypeExternalName) {
			errs = append(errs, field.Forbidden(path.Child("nodePort"), fmt.Sprintf("may not be used when `type` is '%s'", spec.Type)))
		}
		key := number{port.Port, port.Protocol}
		if numbers[key] {
			errs = append(errs, field.Duplicate(path, corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}))
		}
		numbers[key] = true
	}
	return errs
}

func validateServicePort(port *corev1.ServicePort, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range utilvalidation.IsValidPortNum(int(port.Port)) {
		errs = append(errs, field.Invalid(fldPath.Child("port"), port.Port, problem))
	}
	errs = append(errs, oneOf(port.Protocol, fldPath.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	errs = append(errs, validateTargetPort(port.TargetPort, fldPath.Child("targetPort"))...)
	if protocol := port.AppProtocol; protocol != nil {
		for _, problem := range utilvalidation.IsQualifiedName(*protocol) {
			errs = append(errs, field.Invalid(fldPath.Child("appProtocol"), *protocol, problem))
		}
	}
	return errs
}

func validateTargetPort(port intstr.IntOrString, fldPath *field.Path) field.ErrorList {
	var value any = port.IntVal
	problems := utilvalidation.IsValidPortNum(port.IntValue())
	if port.Type == intstr.String {
		value, problems = port.StrVal, utilvalidation.IsValidPortName(port.StrVal)
	}
	var errs field.ErrorList
	for _, problem := range problems {
		errs = append(errs, field.Invalid(fldPath, value, problem))
	}
	return errs
}

func validateAffinity(spec *corev1.ServiceSpec) field.ErrorList {
	errs := oneOf(spec.SessionAffinity, serviceSpecPath.Child("sessionAffinity"), corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	config, path := spec.SessionAffinityConfig, serviceSpecPath.Child("sessionAffinityConfig")
	switch {
	case spec.SessionAffinity == corev1.ServiceAffinityNone && config != nil:
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone)))
	case spec.SessionAffinity == corev1.ServiceAffinityClientIP && config != nil && config.ClientIP != nil && config.ClientIP.TimeoutSeconds != nil:
		if seconds := *config.ClientIP.TimeoutSeconds; seconds <= 0 || seconds > maxAffinitySeconds {
			errs = append(errs, field.Invalid(path.Child("clientIP", "timeoutSeconds"), seconds, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds)))
		}
	}
	return errs
}

func validateTrafficPolicies(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	if policy := spec.ExternalTrafficPolicy; policy != "" {
		errs = append(errs, oneOf(policy, serviceSpecPath.Child("externalTrafficPolicy"),
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	}
	if policy := spec.InternalTrafficPolicy; policy != nil {
		errs = append(errs, oneOf(*policy, serviceSpecPath.Child("internalTrafficPolicy"),
			corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	}
	return errs
}
