package approval

import (
	"crypto/x509"
	"errors"

	"github.com/certplane/certplane/internal/pki/kubelet"
)

// Recogniser matches one sort of request.
type Recogniser struct {
	// Name is the name of the subresource that the requester must be allowed to
	// create.
	Name string
	// message is the message of the Approved condition.
	message string
	// objection returns why a request is not of this sort, or nil.
	objection func(*csr, *x509.CertificateRequest) error
}

// Role returns the bootstrap ClusterRole of Kubernetes that permits what r
// recognises.
func (r Recogniser) Role() string {
	return "system:certificates.k8s.io:certificatesigningrequests:" + r.Name
}

// recognisers is the policy. The narrower permission is checked first.
var recognisers = []Recogniser{
	{
		Name:      "selfnodeclient",
		message:   "Auto approving self kubelet client certificate after SubjectAccessReview.",
		objection: notOwnNodeClient,
	},
	{
		Name:      "nodeclient",
		message:   "Auto approving kubelet client certificate after SubjectAccessReview.",
		objection: notNodeClient,
	},
}

// notNodeClient returns an error unless c is for a client certificate of a
// node.
func notNodeClient(c *csr, parsed *x509.CertificateRequest) error {
	return kubelet.ValidateClient(parsed, c.Spec.Usages)
}

// notOwnNodeClient returns an error unless the node itself requests its client
// certificate, authenticated by its current one.
func notOwnNodeClient(c *csr, parsed *x509.CertificateRequest) error {
	if err := notNodeClient(c, parsed); err != nil {
		return err
	}
	if c.Spec.Username != parsed.Subject.CommonName {
		return errors.New("the requester is not the node itself")
	}
	return nil
}
