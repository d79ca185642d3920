// Package podrefs finds the objects that a pod refers to by name.
package podrefs

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Secrets yields the names of the Secrets of the pod's namespace that a node
// has to read to run the pod. A name can occur more than once.
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

// yieldAll yields what collect adds, until yield returns false.
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

// volumeSecrets handles every type of volume that refers to a Secret of the
// pod's own namespace. It checks all of them: validation makes sure that a
// volume has only one type.
func volumeSecrets(v *corev1.VolumeSource, add func(string)) {
	if v.Secret != nil {
		add(v.Secret.SecretName)
	}
	if v.AzureFile != nil {
		add(v.AzureFile.SecretName)
	}
	if v.Projected != nil {
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				add(source.Secret.Name)
			}
		}
	}
	for _, ref := range secretRefs(v) {
		if ref != nil {
			add(ref.Name)
		}
	}
}

// secretRefs returns the Secret references of volume types that have such a reference in
// addition to other settings.
func secretRefs(v *corev1.VolumeSource) []*corev1.LocalObjectReference {
	var refs []*corev1.LocalObjectReference
	if v.CSI != nil {
		refs = append(refs, v.CSI.NodePublishSecretRef)
	}
	if v.CephFS != nil {
		refs = append(refs, v.CephFS.SecretRef)
	}
	if v.Cinder != nil {
		refs = append(refs, v.Cinder.SecretRef)
	}
	if v.FlexVolume != nil {
		refs = append(refs, v.FlexVolume.SecretRef)
	}
	if v.ISCSI != nil {
		refs = append(refs, v.ISCSI.SecretRef)
	}
	if v.RBD != nil {
		refs = append(refs, v.RBD.SecretRef)
	}
	if v.ScaleIO != nil {
		refs = append(refs, v.ScaleIO.SecretRef)
	}
	if v.StorageOS != nil {
		refs = append(refs, v.StorageOS.SecretRef)
	}
	return refs
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
