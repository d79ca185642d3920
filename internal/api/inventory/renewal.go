package inventory

import (
	"slices"
	"strings"
	"time"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// Identity returns the properties that a renewed certificate shares with the previous one:
// its signer, its subject and its names. For an old record with more names than the current
// limit, it applies the limit first.
func Identity(record *inventoryv1alpha1.IssuedCertificate) string {
	facts := record.Certificate
	BoundNames(&facts)
	names := AlternativeNames(&facts)
	slices.Sort(names)
	return strings.Join(append([]string{record.SignerName, BoundText(facts.Subject), string(facts.OmittedNameDigests)}, names...), "\n")
}

// ExpectsRenewal reports whether certificates with the identity of a record are expected to
// be renewed. Those of pods and of nodes are not: kubelets and agents renew them as long as
// the pod or the node exists. Nor are certificates for the server's own use, which the
// server replaces.
func ExpectsRenewal(record *inventoryv1alpha1.IssuedCertificate) bool {
	if record.Use != "" || record.Denial != nil {
		return false
	}
	return record.Location == nil || record.Location.Kind != "Pod" && record.Location.Kind != "Node"
}

// IsLate reports whether a certificate is in the last fifth of its lifetime: certificates
// that are renewed automatically have a successor by then.
func IsLate(record *inventoryv1alpha1.IssuedCertificate, now time.Time) bool {
	left := record.Certificate.NotAfter.Sub(now)
	return left > 0 && left < record.Certificate.NotAfter.Sub(record.Certificate.NotBefore.Time)/5
}
