package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// setPodDefaults fills in the fields that kubelets and other clients expect.
func setPodDefaults(pod *corev1.Pod) {
	spec := &pod.Spec
	setDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setDefaultPtr(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	setDefaultPtr(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	setDefaultPtr(&spec.SecurityContext, corev1.PodSecurityContext{})
	// This is the older name of the same field; both are always set.
	setDefault(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	each(spec.InitContainers, setContainerDefaults)
	each(spec.Containers, setContainerDefaults)
	each(spec.Volumes, setVolumeDefaults)
}

func setContainerDefaults(container *corev1.Container) {
	setDefault(&container.ImagePullPolicy, pullPolicy(container.Image))
	setDefault(&container.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&container.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	each(container.Ports, func(port *corev1.ContainerPort) { setDefault(&port.Protocol, corev1.ProtocolTCP) })
	each(container.Env, func(env *corev1.EnvVar) {
		if env.ValueFrom != nil {
			setFieldRefDefaults(env.ValueFrom.FieldRef)
		}
	})
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
		if probe != nil {
			setProbeDefaults(probe)
		}
	}
	setRequestDefaults(&container.Resources)
}

// setRequestDefaults sets a container's request to its limit if it has none.
func setRequestDefaults(resources *corev1.ResourceRequirements) {
	for name, limit := range resources.Limits {
		if _, ok := resources.Requests[name]; ok {
			continue
		}
		if resources.Requests == nil {
			resources.Requests = corev1.ResourceList{}
		}
		resources.Requests[name] = limit.DeepCopy()
	}
}

func setProbeDefaults(probe *corev1.Probe) {
	setDefault(&probe.TimeoutSeconds, 1)
	setDefault(&probe.PeriodSeconds, 10)
	setDefault(&probe.SuccessThreshold, 1)
	setDefault(&probe.FailureThreshold, 3)
	if probe.HTTPGet != nil {
		setDefault(&probe.HTTPGet.Path, "/")
		setDefault(&probe.HTTPGet.Scheme, corev1.URISchemeHTTP)
	}
}

func setVolumeDefaults(volume *corev1.Volume) {
	if volume.VolumeSource == (corev1.VolumeSource{}) {
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if secret := volume.Secret; secret != nil {
		setDefaultPtr(&secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if config := volume.ConfigMap; config != nil {
		setDefaultPtr(&config.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if downward := volume.DownwardAPI; downward != nil {
		setDefaultPtr(&downward.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		each(downward.Items, func(item *corev1.DownwardAPIVolumeFile) { setFieldRefDefaults(item.FieldRef) })
	}
	if projected := volume.Projected; projected != nil {
		setDefaultPtr(&projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		each(projected.Sources, func(source *corev1.VolumeProjection) {
			if token := source.ServiceAccountToken; token != nil {
				setDefaultPtr(&token.ExpirationSeconds, 60*60)
			}
			if downward := source.DownwardAPI; downward != nil {
				each(downward.Items, func(item *corev1.DownwardAPIVolumeFile) { setFieldRefDefaults(item.FieldRef) })
			}
		})
	}
}

func setFieldRefDefaults(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		setDefault(&ref.APIVersion, "v1")
	}
}

// pullPolicy returns the default for an image. The content of an image without
// a fixed tag may have changed.
func pullPolicy(image string) corev1.PullPolicy {
	if strings.Contains(image, "@") {
		return corev1.PullIfNotPresent
	}
	// A colon before the last slash separates the port of a registry.
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !tagged || tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setDefaultPtr[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
