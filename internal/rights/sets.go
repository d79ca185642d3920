package rights

import rbacv1 "k8s.io/api/rbac/v1"

// Set is a name, which begins with "@", for the controllers that replace another program.
type Set struct {
	Name        string
	Controllers []string
}

// Sets returns all sets. They lack what the other program does not do by default.
func Sets() []Set {
	return []Set{
		{"@cert-manager", namesOf(CheckIssuers, AnswerRequests, ApproveRequests, IssueCertificates, ProcessOrders, SolveChallenges, ShimIngresses, InjectCAs)},
		{"@trust-manager", namesOf(SpreadBundles)},
	}
}

// Choices returns the names of controllers and sets that users can choose.
func Choices() []string {
	names := Names()
	for _, set := range Sets() {
		names = append(names, set.Name)
	}
	return names
}

// WaitFor returns the controllers that do the work of the program which elects its leader
// with a Lease of this name, and none for an unknown name.
func WaitFor(lease string) []string {
	switch lease {
	case "cert-manager-controller":
		return namesOf(CheckIssuers, AnswerRequests, AnswerCSRs, ApproveRequests, IssueCertificates, ProcessOrders, SolveChallenges, ShimIngresses, ShimGateways)
	case "cert-manager-cainjector-leader-election":
		return namesOf(InjectCAs)
	case "trust-manager-leader-election":
		return namesOf(SpreadBundles)
	}
	return nil
}

func namesOf(controllers ...Controller) []string {
	var names []string
	for _, c := range controllers {
		names = append(names, c.Name)
	}
	return names
}

// OtherLeaseRules returns the rights to hold the Lease with this name, in its namespace. The
// right to create an object cannot be restricted to a name.
func OtherLeaseRules(name string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow("create", coordination, "leases"), allowOn("get patch update", coordination, "leases", name)}
}
