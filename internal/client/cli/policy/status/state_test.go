package status

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// An approver-policy is named while it renews its Lease.
func TestLeases(t *testing.T) {
	lease := func(name, holder string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "pki", Name: name}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: renewed},
		}}
	}
	tests := []struct {
		lease *coordinationv1.Lease
		want  string
	}{
		{lease("policy.cert-manager.io", "pod-1_x", now), "pod-1_x (Lease pki/policy.cert-manager.io)"},
		{lease("policy.cert-manager.io", "pod-1_x", now.Add(-time.Hour)), ""},
		{lease("policy.cert-manager.io", "", now), ""},
		{lease("other", "pod-1_x", now), ""},
	}
	for _, tc := range tests {
		s := &state{}
		if err := s.readLeases(now)(t.Context(), fake.NewClientBuilder().WithObjects(tc.lease).Build()); err != nil || s.foreign != tc.want {
			t.Errorf("%s held by %q since %s: %q, %v; want %q", tc.lease.Name, *tc.lease.Spec.HolderIdentity, tc.lease.Spec.RenewTime, s.foreign, err, tc.want)
		}
	}
}
