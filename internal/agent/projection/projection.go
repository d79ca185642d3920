// Package projection computes the files of a projected volume: their paths, modes and
// owners.
package projection

import (
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/agent/volume"
)

const (
	// publicMode and secretMode are the modes of files whose manifest sets no
	// mode.
	publicMode fs.FileMode = 0o644
	secretMode fs.FileMode = 0o600
	// groupRead is added to secretMode if the pod sets a group for its files.
	groupRead fs.FileMode = 0o040
)

// Part is a file from a source of the volume.
type Part struct {
	Path string
	Data []byte
	// Secret is true for files that only their owner may read, unless the manifest sets a
	// mode.
	Secret bool
	// Mode and User are the values that the source sets for this file.
	Mode *int32
	User *int64
}

// Files returns the parts of a pod's volume with their modes and owners.
//
// The mode is the mode of the file or, if it is not set, the volume's defaultMode; without
// both, it is 0600 for secret files and 0644 for other files. This differs from Kubernetes,
// where a private key has the mode 0644 unless the manifest sets one: on a host, no
// container isolates the file.
//
// The owner is the first of these that is set: the source's user, the volume's defaultUser,
// the user as which all containers run; otherwise the agent's user. The group is the pod's
// fsGroup, which may also read secret files.
func Files(pod *corev1.Pod, volumeSource *corev1.ProjectedVolumeSource, parts []Part) (volume.Files, error) {
	files := volume.Files{}
	uid, gid := defaultUser(pod, volumeSource), fsGroup(pod)
	for _, part := range parts {
		if _, twice := files[part.Path]; twice {
			return nil, fmt.Errorf("path %q: two sources have a file of this path", part.Path)
		}
		file := volume.File{Data: part.Data, Mode: mode(volumeSource, part, gid != volume.Own), UID: uid, GID: gid}
		if part.User != nil {
			file.UID = int(*part.User)
		}
		files[part.Path] = file
	}
	return files, nil
}

func mode(source *corev1.ProjectedVolumeSource, part Part, group bool) fs.FileMode {
	switch {
	case part.Mode != nil:
		return fs.FileMode(*part.Mode).Perm()
	case source.DefaultMode != nil:
		return fs.FileMode(*source.DefaultMode).Perm()
	case part.Secret && group:
		return secretMode | groupRead
	case part.Secret:
		return secretMode
	}
	return publicMode
}

func defaultUser(pod *corev1.Pod, source *corev1.ProjectedVolumeSource) int {
	if source.DefaultUser != nil {
		return int(*source.DefaultUser)
	}
	return runAsUser(&pod.Spec)
}

func fsGroup(pod *corev1.Pod) int {
	if c := pod.Spec.SecurityContext; c != nil && c.FSGroup != nil {
		return int(*c.FSGroup)
	}
	return volume.Own
}

// runAsUser returns the user of all containers, if they all run as the same user.
func runAsUser(spec *corev1.PodSpec) int {
	var all []*corev1.SecurityContext
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			all = append(all, containers[i].SecurityContext)
		}
	}
	common := volume.Own
	for i, own := range all {
		user := podUser(spec)
		if own != nil && own.RunAsUser != nil {
			user = int(*own.RunAsUser)
		}
		if i > 0 && user != common {
			return volume.Own
		}
		common = user
	}
	return common
}

func podUser(spec *corev1.PodSpec) int {
	if c := spec.SecurityContext; c != nil && c.RunAsUser != nil {
		return int(*c.RunAsUser)
	}
	return volume.Own
}
