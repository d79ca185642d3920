package inventory

import (
	"slices"
	"strings"
	"time"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// Identity returns what a renewed certificate has in common with the one before: its signer,
// its subject and its names. That of a record with more names than records have now is as if
// it were made now.
func Identity(record *inventoryv1alpha1.IssuedCertificate) string {
	facts := record.Certificate
	BoundNames(&facts)
	names := AlternativeNames(&facts)
	slices.Sort(names)
	return strings.Join(append([]string{record.SignerName, BoundText(facts.Subject), string(facts.OmittedNameDigests)}, names...), "\n")
}

// ExpectsRenewal reports whether certificates with the identity of a record are expected to be
// renewed. Those of pods and of nodes are not: they end after a pod or a node is gone, and
// kubelets and agents renew theirs until then. Nor are those that the server makes for itself,
// which it replaces.
func ExpectsRenewal(record *inventoryv1alpha1.IssuedCertificate) bool {
	if record.Use != "" || record.Denial != nil {
		return false
	}
	return record.Location == nil || record.Location.Kind != "Pod" && record.Location.Kind != "Node"
}

// IsLate reports whether a certificate has less than a fifth of its life left, and has not
// ended: what is renewed automatically has a newer one by then.
func IsLate(record *inventoryv1alpha1.IssuedCertificate, now time.Time) bool {
	left := record.Certificate.NotAfter.Sub(now)
	return left > 0 && left < record.Certificate.NotAfter.Sub(record.Certificate.NotBefore.Time)/5
}
