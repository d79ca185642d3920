package certpolicy

import (
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

const (
	certificatesGroup = certificatesv1.GroupName
	certManagerGroup  = certmanager.Group
)

// approvalNames returns the names under which the right to approve for a signer is
// granted: its own, and the name for all signers of its domain.
func approvalNames(name string) []string {
	domain, _, ok := strings.Cut(name, "/")
	if all := domain + "/*"; ok && all != name {
		return []string{name, all}
	}
	return []string{name}
}

// isIssuer reports whether a name stands for an issuer of cert-manager.io.
func isIssuer(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "issuers."+certManagerGroup || domain == "clusterissuers."+certManagerGroup
}
