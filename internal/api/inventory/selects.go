package inventory

import (
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/nodeid"
)

// Selects reports whether a record is in all lists of the selection of a Revocation that are
// set. It does not compare labels and times.
func Selects(s *v1alpha1.RevocationSelection, record *inventoryv1alpha1.IssuedCertificate) bool {
	facts := &record.Certificate
	return has(s.Signers, record.SignerName) && has(s.Requesters, record.Request.Requester) && has(s.Namespaces, record.Request.Namespace) &&
		hasFold(s.AuthorityKeyIDs, facts.AuthorityKeyID) && hasFold(s.KeyFingerprints, facts.KeyFingerprint) &&
		(len(s.Names) == 0 || slices.ContainsFunc(s.Names, func(name string) bool {
			// A record that leaves out names may have it: to revoke one too many is the lesser harm.
			return Fits(record, inventoryv1alpha1.NameField, strings.ToLower(name)) != Absent
		})) &&
		(len(s.Nodes) == 0 || slices.ContainsFunc(s.Nodes, func(node string) bool { return isOf(node, record) }))
}

// IsRevoked reports whether servers refuse the certificate of a record. Endpoints of the ACME
// server can also only note what their clients revoke.
func IsRevoked(record *inventoryv1alpha1.IssuedCertificate) bool {
	return record.Revocation != nil && record.Revocation.Name != ""
}

// isOf reports whether a certificate is one of a node or of its pods.
func isOf(node string, record *inventoryv1alpha1.IssuedCertificate) bool {
	if l := record.Location; l != nil && (l.Node == node || l.Kind == "Node" && l.Name == node) {
		return true
	}
	user := nodeid.UserPrefix + node
	return record.Request.Requester == user ||
		record.Certificate.CommonName == user && (record.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName || record.SignerName == certificatesv1.KubeletServingSignerName)
}

func has(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

func hasFold(list []string, value string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(listed string) bool { return strings.EqualFold(listed, value) })
}
