// Package podrefs finds the objects that a pod refers to by name.
package podrefs

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Secrets yields the names of the Secrets of the pod's namespace that whoever
// runs the pod has to read. A name can come more than once.
func Secrets(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		yieldAll(yield, func(add func(string)) {
			for _, pull := range pod.Spec.ImagePullSecrets {
				add(pull.Name)
			}
			for i := range pod.Spec.Volumes {
				volumeSecrets(&pod.Spec.Volumes[i].VolumeSource, add)
			}
			eachEnvironment(pod, func(env []corev1.EnvVar, from []corev1.EnvFromSource) {
				for _, e := range env {
					if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
						add(e.ValueFrom.SecretKeyRef.Name)
					}
				}
				for _, f := range from {
					if f.SecretRef != nil {
						add(f.SecretRef.Name)
					}
				}
			})
		})
	}
}

// ConfigMaps is Secrets for ConfigMaps.
func ConfigMaps(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		yieldAll(yield, func(add func(string)) {
			for i := range pod.Spec.Volumes {
				volumeConfigMaps(&pod.Spec.Volumes[i].VolumeSource, add)
			}
			eachEnvironment(pod, func(env []corev1.EnvVar, from []corev1.EnvFromSource) {
				for _, e := range env {
					if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
						add(e.ValueFrom.ConfigMapKeyRef.Name)
					}
				}
				for _, f := range from {
					if f.ConfigMapRef != nil {
						add(f.ConfigMapRef.Name)
					}
				}
			})
		})
	}
}

// yieldAll yields what collect adds, until yield has enough.
func yieldAll(yield func(string) bool, collect func(add func(string))) {
	more := true
	collect(func(name string) {
		if more && name != "" {
			more = yield(name)
		}
	})
}

func eachEnvironment(pod *corev1.Pod, visit func([]corev1.EnvVar, []corev1.EnvFromSource)) {
	for _, c := range pod.Spec.InitContainers {
		visit(c.Env, c.EnvFrom)
	}
	for _, c := range pod.Spec.Containers {
		visit(c.Env, c.EnvFrom)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		visit(c.Env, c.EnvFrom)
	}
}

// volumeSecrets knows every kind of volume that names a Secret of the pod's
// own namespace.
func volumeSecrets(v *corev1.VolumeSource, add func(string)) {
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			add(ref.Name)
		}
	}
	switch {
	case v.Secret != nil:
		add(v.Secret.SecretName)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				add(source.Secret.Name)
			}
		}
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		add(v.AzureFile.SecretName)
	case v.CephFS != nil:
		local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		local(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		local(v.StorageOS.SecretRef)
	}
}

func volumeConfigMaps(v *corev1.VolumeSource, add func(string)) {
	if v.ConfigMap != nil {
		add(v.ConfigMap.Name)
	}
	if v.Projected == nil {
		return
	}
	for _, source := range v.Projected.Sources {
		if source.ConfigMap != nil {
			add(source.ConfigMap.Name)
		}
	}
}
