package approverpolicy

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// LeaseName is the name of the Lease that approver-policy holds while it runs, in the
// namespace of its installation.
const LeaseName = GroupName

// LeaseHolder returns the process of approver-policy that holds the Lease, or "" if the
// Lease was released or is no longer renewed.
func LeaseHolder(lease *coordinationv1.Lease, now time.Time) string {
	spec := lease.Spec
	if spec.HolderIdentity == nil {
		return ""
	}
	if spec.RenewTime != nil && spec.LeaseDurationSeconds != nil {
		ends := spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds)*time.Second + leaseGrace)
		if ends.Before(now) {
			return ""
		}
	}
	return *spec.HolderIdentity
}

// leaseGrace is the permitted difference between the clock of the holder and the local
// clock.
const leaseGrace = time.Minute
