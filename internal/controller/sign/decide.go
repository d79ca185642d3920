package sign

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/signer"
)

type csr = certificatesv1.CertificateSigningRequest

// actionable tells whether a request waits for this signer. Approved and
// Denied count by their presence alone; their status can only be True.
func actionable(c *csr, selects func(signerName string) bool) bool {
	return open(c, selects) && certificates.Condition(c, certificatesv1.CertificateApproved) != nil
}

// undecided tells whether a request of this signer waits for its approval.
func undecided(c *csr, selects func(signerName string) bool) bool {
	return open(c, selects) && certificates.Condition(c, certificatesv1.CertificateApproved) == nil
}

func open(c *csr, selects func(signerName string) bool) bool {
	return selects(c.Spec.SignerName) &&
		len(c.Status.Certificate) == 0 &&
		certificates.Condition(c, certificatesv1.CertificateDenied) == nil &&
		!certificates.HasFailed(c)
}

// request is what the signer gets to see.
func request(c *csr) signer.Request {
	req := signer.Request{
		Name: c.Name, UID: string(c.UID), SignerName: c.Spec.SignerName,
		Requester: signer.Requester{Username: c.Spec.Username, UID: c.Spec.UID, Groups: c.Spec.Groups},
		PEM:       c.Spec.Request, Usages: c.Spec.Usages, Annotations: c.Annotations,
	}
	for key, values := range c.Spec.Extra {
		if req.Requester.Extra == nil {
			req.Requester.Extra = map[string][]string{}
		}
		req.Requester.Extra[key] = values
	}
	if c.Spec.ExpirationSeconds != nil {
		duration := time.Duration(*c.Spec.ExpirationSeconds) * time.Second
		req.Duration = &duration
	}
	return req
}
