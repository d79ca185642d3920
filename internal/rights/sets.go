package rights

import (
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Set is a name for the controllers that replace another program. Sets must not be modified.
type Set struct {
	// Name is the name in the configuration. It begins with "@".
	Name string
	// Controllers are the controllers of the set. A set without any cannot be chosen.
	Controllers []Controller
}

// Sets returns all sets. Controllers that the other program does not run by default, such as
// gateway-shim, are not in its set.
func Sets() []Set {
	return []Set{
		{"@cert-manager", []Controller{CheckIssuers, AnswerRequests, ApproveRequests, IssueCertificates, ProcessOrders, SolveChallenges, ShimIngresses, InjectCAs}},
		{"@trust-manager", nil},
	}
}

// Names returns the names of the controllers of the set.
func (s Set) Names() []string { return namesOf(s.Controllers) }

// SetNames returns the names of the sets that users can choose.
func SetNames() []string {
	var names []string
	for _, set := range Sets() {
		if len(set.Controllers) > 0 {
			names = append(names, set.Name)
		}
	}
	return names
}

// OtherLease is a Lease with which another program elects its leader, and what that
// program uses by default. Rows must not be modified.
type OtherLease struct {
	// Name is the name of the Lease, and Program is the name of the program.
	Name, Program string
	// Controllers do the same work as the program.
	Controllers []Controller
	// LeaseDuration, RenewDeadline and RetryPeriod are the times of the program's election.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// OtherLeases returns all rows. The names and times are those of cert-manager 1.21 and
// trust-manager 0.24.
func OtherLeases() []OtherLease {
	return []OtherLease{
		{"cert-manager-controller", "cert-manager", []Controller{
			CheckIssuers, AnswerRequests, AnswerCSRs, ApproveRequests, IssueCertificates, ProcessOrders, SolveChallenges, ShimIngresses, ShimGateways,
		}, 60 * time.Second, 40 * time.Second, 15 * time.Second},
		{"cert-manager-cainjector-leader-election", "cert-manager's cainjector", []Controller{InjectCAs}, 60 * time.Second, 40 * time.Second, 15 * time.Second},
		{"trust-manager-leader-election", "trust-manager", nil, 15 * time.Second, 10 * time.Second, 2 * time.Second},
	}
}

// OtherLeaseOf returns the row with this name. For an unknown name, it returns a row without
// a program and controllers, and with the times of cert-manager.
func OtherLeaseOf(name string) OtherLease {
	rows := OtherLeases()
	if at := slices.IndexFunc(rows, func(l OtherLease) bool { return l.Name == name }); at >= 0 {
		return rows[at]
	}
	row := rows[0]
	row.Name, row.Program, row.Controllers = name, "", nil
	return row
}

// Names returns the names of the controllers that do the work of the lease's program.
func (l OtherLease) Names() []string { return namesOf(l.Controllers) }

func namesOf(controllers []Controller) []string {
	var names []string
	for _, c := range controllers {
		names = append(names, c.Name)
	}
	return names
}

// OtherLeaseRules returns the rights that the process needs in the namespace of a Lease with
// this name, to hold it.
func OtherLeaseRules(name string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// The right to create an object cannot be restricted to a name.
		allow("create", coordination, "leases"),
		allowOn("get patch update", coordination, "leases", name),
	}
}
