package approval

import (
	"crypto/x509"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/certplane/certplane/internal/pki"
)

// minRSABits is the smallest key of NIST SP 800-131A.
const minRSABits = 2048

// strict wants, of a node's request, a name that a Node object can have and a
// key that stands up to today's attacks. Kubernetes looks at neither.
func strict(parsed *x509.CertificateRequest) error {
	node := strings.TrimPrefix(parsed.Subject.CommonName, "system:node:")
	if problems := validation.IsDNS1123Subdomain(node); len(problems) > 0 {
		return fmt.Errorf("%q is not the name of a node: %s", node, problems[0])
	}
	return pki.CheckPublicKey(parsed.PublicKey, minRSABits)
}
