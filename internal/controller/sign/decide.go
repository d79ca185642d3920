package sign

import (
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certificates"
)

type csr = certificatesv1.CertificateSigningRequest

// actionable reports whether a request waits for this signer. Approved and
// Denied count by their presence alone; their status can only be True.
func actionable(c *csr, selects func(signerName string) bool) bool {
	return open(c, selects) && certificates.Condition(c, certificatesv1.CertificateApproved) != nil
}

// undecided reports whether a request of this signer waits for its approval.
func undecided(c *csr, selects func(signerName string) bool) bool {
	return open(c, selects) && certificates.Condition(c, certificatesv1.CertificateApproved) == nil
}

func open(c *csr, selects func(signerName string) bool) bool {
	return selects(c.Spec.SignerName) &&
		len(c.Status.Certificate) == 0 &&
		certificates.Condition(c, certificatesv1.CertificateDenied) == nil &&
		!certificates.HasFailed(c)
}
