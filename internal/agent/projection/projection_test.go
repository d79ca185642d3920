package projection

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/agent/volume"
)

func TestModesAndOwners(t *testing.T) {
	key, public := Part{Path: "key", Secret: true}, Part{Path: "key"}
	type in struct {
		pod    corev1.PodSpec
		source corev1.ProjectedVolumeSource
		part   Part
	}
	own := volume.Own
	tests := []struct {
		reason   string
		in       in
		mode     fs.FileMode
		uid, gid int
	}{
		{"what is secret", in{part: key}, 0o600, own, own},
		{"what is not", in{part: public}, 0o644, own, own},
		{"the volume's mode, for what is secret too", in{part: key, source: corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o644)}}, 0o644, own, own},
		{"a stricter mode", in{part: public, source: corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o400)}}, 0o400, own, own},
		{"the item's mode", in{part: Part{Path: "key", Mode: ptr.To[int32](0o444)}, source: corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o400)}}, 0o444, own, own},
		{"a group for files", in{part: key, pod: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{FSGroup: ptr.To[int64](7)}}}, 0o640, own, 7},
		{"a group for files, chosen mode", in{part: key, source: corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o600)}, pod: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{FSGroup: ptr.To[int64](7)}}}, 0o600, own, 7},
		{"the pod's user", in{part: key, pod: corev1.PodSpec{Containers: make([]corev1.Container, 2), SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](5)}}}, 0o600, 5, own},
		{"containers of one user", in{part: key, pod: corev1.PodSpec{Containers: []corev1.Container{as(5), as(5)}}}, 0o600, 5, own},
		{"containers of several", in{part: key, pod: corev1.PodSpec{Containers: []corev1.Container{as(5)}, InitContainers: []corev1.Container{as(6)}}}, 0o600, own, own},
		{"the volume's user", in{part: key, source: corev1.ProjectedVolumeSource{DefaultUser: ptr.To[int64](8)}, pod: corev1.PodSpec{Containers: []corev1.Container{as(5)}}}, 0o600, 8, own},
		{"the source's user", in{part: Part{Path: "key", Secret: true, User: ptr.To[int64](9)}, source: corev1.ProjectedVolumeSource{DefaultUser: ptr.To[int64](8)}}, 0o600, 9, own},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			files, err := Files(&corev1.Pod{Spec: tt.in.pod}, &tt.in.source, []Part{tt.in.part})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(volume.File{Mode: tt.mode, UID: tt.uid, GID: tt.gid}, files["key"]); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
		})
	}
}

func as(user int64) corev1.Container {
	return corev1.Container{SecurityContext: &corev1.SecurityContext{RunAsUser: &user}}
}

func TestOnePathTwice(t *testing.T) {
	_, err := Files(&corev1.Pod{}, &corev1.ProjectedVolumeSource{}, []Part{{Path: "a"}, {Path: "a"}})
	if err == nil || !strings.Contains(err.Error(), `path "a"`) {
		t.Errorf("error = %v", err)
	}
}

func show(parts []Part) map[string]string {
	shown := map[string]string{}
	for _, part := range parts {
		shown[part.Path] = fmt.Sprint(string(part.Data), " ", part.Secret)
	}
	return shown
}

func TestCertificateFiles(t *testing.T) {
	source := &corev1.PodCertificateProjection{CredentialBundlePath: "b", KeyPath: "k", CertificateChainPath: "c"}
	if diff := cmp.Diff(map[string]string{"b": "KEYCHAIN true", "k": "KEY true", "c": "CHAIN false"}, show(Certificate(source, []byte("KEY"), []byte("CHAIN")))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if parts := Certificate(&corev1.PodCertificateProjection{KeyPath: "k"}, []byte("KEY"), nil); len(parts) != 1 {
		t.Errorf("files of a source with one path: %v", parts)
	}
}

func TestObjects(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": []byte("2")}}
	named := corev1.LocalObjectReference{Name: "x"}
	tests := []struct {
		reason string
		source corev1.ConfigMapProjection
		object *corev1.ConfigMap
		want   map[string]string
		err    string
	}{
		{"all keys", corev1.ConfigMapProjection{LocalObjectReference: named}, object, map[string]string{"a": "1 false", "b": "2 false"}, ""},
		{"some items", corev1.ConfigMapProjection{LocalObjectReference: named, Items: []corev1.KeyToPath{{Key: "a", Path: "d/e"}}}, object, map[string]string{"d/e": "1 false"}, ""},
		{"a missing key", corev1.ConfigMapProjection{LocalObjectReference: named, Items: []corev1.KeyToPath{{Key: "z", Path: "z"}}}, object, nil, `ConfigMap "x": it has no key "z"`},
		{"a missing key, optional", corev1.ConfigMapProjection{LocalObjectReference: named, Optional: ptr.To(true), Items: []corev1.KeyToPath{{Key: "z", Path: "z"}}}, object, map[string]string{}, ""},
		{"missing", corev1.ConfigMapProjection{LocalObjectReference: named}, nil, nil, `the ConfigMap "x" does not exist`},
		{"missing, optional", corev1.ConfigMapProjection{LocalObjectReference: named, Optional: ptr.To(true)}, nil, map[string]string{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			parts, err := ConfigMap(&tt.source, tt.object)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || err.Error() != tt.err) {
				t.Fatalf("error = %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, show(parts)); diff != "" && tt.err == "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
	secret := &corev1.Secret{Data: map[string][]byte{"p": []byte("3")}}
	parts, err := Secret(&corev1.SecretProjection{LocalObjectReference: named}, secret)
	if err != nil || !slices.Equal(slices.Collect(maps.Values(show(parts))), []string{"3 true"}) {
		t.Errorf("a Secret: %v, %v", parts, err)
	}
	if _, err := Secret(&corev1.SecretProjection{LocalObjectReference: named}, nil); err == nil {
		t.Error("a missing Secret is fine")
	}
}
