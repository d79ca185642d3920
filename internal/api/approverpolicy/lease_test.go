package approverpolicy

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLeaseHolder(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	held := func(holder string, renewed time.Duration) coordinationv1.LeaseSpec {
		return coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: now.Add(renewed)}}
	}
	tests := []struct {
		reason string
		spec   coordinationv1.LeaseSpec
		want   string
	}{
		{"renewed just now", held("pod-1_x", -time.Second), "pod-1_x"},
		{"renewed by a clock that is ahead", held("pod-1_x", time.Second), "pod-1_x"},
		{"renewed by a clock that is behind", held("pod-1_x", -time.Minute), "pod-1_x"},
		{"its holder is gone", held("pod-1_x", -2*time.Minute), ""},
		{"given back", held("", -time.Second), ""},
		{"never held", coordinationv1.LeaseSpec{}, ""},
	}
	for _, tc := range tests {
		if got := LeaseHolder(&coordinationv1.Lease{Spec: tc.spec}, now); got != tc.want {
			t.Errorf("%s: held by %q, want %q", tc.reason, got, tc.want)
		}
	}
}
