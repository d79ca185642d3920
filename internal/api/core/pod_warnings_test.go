package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestPodWarnings(t *testing.T) {
	trust := func(path string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: ptr.To("x"), Path: path}}
	}
	token := func(path string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: path}}
	}
	for _, tc := range []struct {
		reason  string
		sources []corev1.VolumeProjection
		want    []string
	}{
		{"side by side", []corev1.VolumeProjection{trust("a/b"), trust("a/c"), token("ab")}, nil},
		{"a file below a file", []corev1.VolumeProjection{trust("a"), trust("a/b")},
			[]string{`volume "v" (Projected): overlapping paths: "a/b" (ClusterTrustBundle "x") with "a" (ClusterTrustBundle "x")`}},
		{"a file above a file", []corev1.VolumeProjection{trust("a/b"), token("a")},
			[]string{`volume "v" (Projected): overlapping paths: "a" (ServiceAccountToken) with "a/b" (ClusterTrustBundle "x")`}},
		{"a token that replaces a file", []corev1.VolumeProjection{trust("a"), token("a")},
			[]string{`volume "v" (Projected): overlapping paths: "a" (ServiceAccountToken) with "a" (ClusterTrustBundle "x")`}},
		{"nothing", []corev1.VolumeProjection{{}}, []string{`volume "v" (Projected) has no sources provided`}},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "other"},
			{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: tc.sources}}},
		}}}
		if diff := cmp.Diff(tc.want, PodWarnings(pod, nil)); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", tc.reason, diff)
		}
		if got := PodWarnings(pod, pod); got != nil {
			t.Errorf("%s: an update warns: %v", tc.reason, got)
		}
	}
}
