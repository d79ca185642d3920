package podrefs

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestReferences(t *testing.T) {
	local := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	volumes := []corev1.VolumeSource{
		{Secret: &corev1.SecretVolumeSource{SecretName: "s-volume"}},
		{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: *local("c-volume")}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: *local("s-projected")}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: *local("c-projected")}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}},
		}}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local("s-csi")}},
		{CSI: &corev1.CSIVolumeSource{}},
		{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s-azure"}},
		{CephFS: &corev1.CephFSVolumeSource{SecretRef: local("s-ceph")}},
		{Cinder: &corev1.CinderVolumeSource{SecretRef: local("s-cinder")}},
		{FlexVolume: &corev1.FlexVolumeSource{SecretRef: local("s-flex")}},
		{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: local("s-iscsi")}},
		{RBD: &corev1.RBDVolumeSource{SecretRef: local("s-rbd")}},
		{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: local("s-scaleio")}},
		{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: local("s-storageos")}},
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Env: []corev1.EnvVar{
				{Name: "PLAIN", Value: "x"},
				{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *local("s-env-" + name)}}},
				{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: *local("c-env-" + name)}}},
			},
			EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *local("s-from-" + name)}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: *local("c-from-" + name)}},
			},
		}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ImagePullSecrets:    []corev1.LocalObjectReference{*local("s-pull"), {}},
		InitContainers:      []corev1.Container{container("init")},
		Containers:          []corev1.Container{container("main")},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(container("debug"))}},
	}}
	for _, source := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: source})
	}

	if diff := cmp.Diff([]string{
		"s-azure", "s-ceph", "s-cinder", "s-csi", "s-env-debug", "s-env-init", "s-env-main", "s-flex", "s-from-debug",
		"s-from-init", "s-from-main", "s-iscsi", "s-projected", "s-pull", "s-rbd", "s-scaleio", "s-storageos", "s-volume",
	}, slices.Sorted(Secrets(pod))); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"c-env-debug", "c-env-init", "c-env-main", "c-from-debug", "c-from-init", "c-from-main", "c-projected", "c-volume",
	}, slices.Sorted(ConfigMaps(pod))); diff != "" {
		t.Errorf("ConfigMaps (-want +got):\n%s", diff)
	}
	for range Secrets(pod) {
		break // must not continue after that
	}
}

// A volume with two types, which validation refuses, has the references of
// both.
func TestPairsOfTypes(t *testing.T) {
	local := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	types := []struct {
		name string
		set  func(*corev1.VolumeSource)
	}{
		{"secret", func(v *corev1.VolumeSource) { v.Secret = &corev1.SecretVolumeSource{SecretName: "secret"} }},
		{"projected", func(v *corev1.VolumeSource) {
			v.Projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
				Secret:    &corev1.SecretProjection{LocalObjectReference: *local("projected")},
				ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: *local("projected")},
			}}}
		}},
		{"csi", func(v *corev1.VolumeSource) { v.CSI = &corev1.CSIVolumeSource{NodePublishSecretRef: local("csi")} }},
		{"azureFile", func(v *corev1.VolumeSource) { v.AzureFile = &corev1.AzureFileVolumeSource{SecretName: "azureFile"} }},
		{"cephfs", func(v *corev1.VolumeSource) { v.CephFS = &corev1.CephFSVolumeSource{SecretRef: local("cephfs")} }},
		{"cinder", func(v *corev1.VolumeSource) { v.Cinder = &corev1.CinderVolumeSource{SecretRef: local("cinder")} }},
		{"flexVolume", func(v *corev1.VolumeSource) { v.FlexVolume = &corev1.FlexVolumeSource{SecretRef: local("flexVolume")} }},
		{"iscsi", func(v *corev1.VolumeSource) { v.ISCSI = &corev1.ISCSIVolumeSource{SecretRef: local("iscsi")} }},
		{"rbd", func(v *corev1.VolumeSource) { v.RBD = &corev1.RBDVolumeSource{SecretRef: local("rbd")} }},
		{"scaleIO", func(v *corev1.VolumeSource) { v.ScaleIO = &corev1.ScaleIOVolumeSource{SecretRef: local("scaleIO")} }},
		{"storageos", func(v *corev1.VolumeSource) {
			v.StorageOS = &corev1.StorageOSVolumeSource{SecretRef: local("storageos")}
		}},
	}
	for i, a := range types {
		for _, b := range types[i+1:] {
			source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: *local("plain")}}
			a.set(&source)
			b.set(&source)
			pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: source}}}}
			want := []string{a.name, b.name}
			slices.Sort(want)
			if got := slices.Sorted(Secrets(pod)); !slices.Equal(got, want) {
				t.Errorf("%s and %s: Secrets %v", a.name, b.name, got)
			}
			if got := slices.Collect(ConfigMaps(pod)); !slices.Contains(got, "plain") {
				t.Errorf("%s and %s: ConfigMaps %v", a.name, b.name, got)
			}
		}
	}
}
