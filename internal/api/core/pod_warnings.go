package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// PodWarnings returns warnings about a new pod that is valid but probably not
// what its author wants: files of a projected volume that conflict. old is nil
// for a new pod; volumes of other pods cannot change.
func PodWarnings(pod, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	var warnings []string
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		name := fmt.Sprintf("volume %q (Projected)", volume.Name)
		var before []projectedFile
		for _, source := range volume.Projected.Sources {
			if source == (corev1.VolumeProjection{}) {
				warnings = append(warnings, name+" has no sources provided")
			}
			for _, file := range projectedFiles(source) {
				warnings = append(warnings, file.conflicts(name, before)...)
				before = append(before, file)
			}
		}
	}
	return warnings
}

// projectedFile is a file that a source of a projected volume writes.
type projectedFile struct{ path, of string }

// projectedFiles returns the files whose names are in the pod.
func projectedFiles(source corev1.VolumeProjection) []projectedFile {
	var files []projectedFile
	add := func(path, of string) {
		if path != "" {
			files = append(files, projectedFile{strings.TrimRight(path, "/"), of})
		}
	}
	if secret := source.Secret; secret != nil {
		for _, item := range secret.Items {
			add(item.Path, fmt.Sprintf("Secret %q", secret.Name))
		}
	}
	if config := source.ConfigMap; config != nil {
		for _, item := range config.Items {
			add(item.Path, fmt.Sprintf("ConfigMap %q", config.Name))
		}
	}
	if downward := source.DownwardAPI; downward != nil {
		for _, item := range downward.Items {
			add(item.Path, "DownwardAPI")
		}
	}
	if token := source.ServiceAccountToken; token != nil {
		add(token.Path, "ServiceAccountToken")
	}
	if trust := source.ClusterTrustBundle; trust != nil {
		add(trust.Path, fmt.Sprintf("ClusterTrustBundle %q", ptr.Deref(trust.Name, ptr.Deref(trust.SignerName, ""))))
	}
	if certificate := source.PodCertificate; certificate != nil {
		add(certificate.CertificateChainPath, "PodCertificate chain")
		add(certificate.KeyPath, "PodCertificate key")
		add(certificate.CredentialBundlePath, "PodCertificate credential bundle")
	}
	return files
}

// conflicts returns the files that cannot exist beside f, because one would
// have to be a directory of the other, or that f replaces.
func (f projectedFile) conflicts(volume string, before []projectedFile) []string {
	var warnings []string
	for _, other := range before {
		if f.path == other.path || strings.HasPrefix(f.path, other.path+"/") || strings.HasPrefix(other.path, f.path+"/") {
			warnings = append(warnings, fmt.Sprintf("%s: overlapping paths: %q (%s) with %q (%s)", volume, f.path, f.of, other.path, other.of))
		}
	}
	return warnings
}
