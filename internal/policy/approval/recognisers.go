package approval

import (
	"crypto/x509"
	"errors"

	"github.com/certplane/certplane/internal/pki/kubelet"
)

// Recogniser knows one sort of request.
type Recogniser struct {
	// Name is that of the subresource that the requester must be allowed to
	// create.
	Name string
	// message is what the Approved condition says.
	message string
	// objection tells why a request is not of this sort.
	objection func(*csr, *x509.CertificateRequest) error
}

// Role is the bootstrap ClusterRole of Kubernetes that permits what r
// recognises.
func (r Recogniser) Role() string {
	return "system:certificates.k8s.io:certificatesigningrequests:" + r.Name
}

// recognisers is the policy. The narrower permission is asked for first.
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

// notNodeClient wants a client certificate for a node.
func notNodeClient(c *csr, parsed *x509.CertificateRequest) error {
	return kubelet.ValidateClient(parsed, c.Spec.Usages)
}

// notOwnNodeClient wants one that the node itself asks for, with the
// certificate that it has now.
func notOwnNodeClient(c *csr, parsed *x509.CertificateRequest) error {
	if err := notNodeClient(c, parsed); err != nil {
		return err
	}
	if c.Spec.Username != parsed.Subject.CommonName {
		return errors.New("the requester is not the node itself")
	}
	return nil
}
