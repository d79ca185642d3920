package apiserver

import (
	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
)

// leanKinds are the names of the definitions whose objects are written most: a
// Certificate takes a dozen writes, and an order of the ACME server half of that. Signers
// are among them for their tables, which show lifetimes in days. The others are among them
// because the library compiles their rules and schemas at each start.
func leanKinds(more []string) []string {
	return append([]string{
		"certificates." + certmanager.Group, "certificaterequests." + certmanager.Group,
		"issuers." + certmanager.Group, "clusterissuers." + certmanager.Group,
		"orders." + certmanager.ACMEGroup, "challenges." + certmanager.ACMEGroup,
		"acmeorders." + v1alpha1.GroupName, "acmeaccounts." + v1alpha1.GroupName, "signers." + v1alpha1.GroupName,
		"acmeexternalkeys." + v1alpha1.GroupName, "revocations." + v1alpha1.GroupName,
		"certificatepolicies." + v1alpha1.GroupName, "certificatepolicyexceptions." + v1alpha1.GroupName,
	}, more...)
}

// ownedByACMEServer lists the lean resources that only the ACME server can create. They are
// created with their status, which saves a write, and without managed fields, which would
// take a third of their size.
func ownedByACMEServer() []string { return []string{"acmeorders." + v1alpha1.GroupName} }
