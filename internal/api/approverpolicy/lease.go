package approverpolicy

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// LeaseName is the name of the Lease that approver-policy holds while it works,
// in the namespace that it is installed in.
const LeaseName = GroupName

// LeaseHolder returns which process of approver-policy works, by its Lease, or
// "" if none does: the Lease was given back, or is not renewed any more.
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

// leaseGrace is how much the clocks of its holder and of whoever looks may
// differ.
const leaseGrace = time.Minute
