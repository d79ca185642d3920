package issuer

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
)

// signingRequests is the CertificateSigningRequest API of certificates.k8s.io.
var signingRequests = requestAPI[*certificatesv1.CertificateSigningRequest]{
	GroupVersionKind: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
	plural:           "certificatesigningrequests",
	new:              func() *certificatesv1.CertificateSigningRequest { return &certificatesv1.CertificateSigningRequest{} },
	list:             func() client.ObjectList { return &certificatesv1.CertificateSigningRequestList{} },
	issuer: func(ks kinds, csr *certificatesv1.CertificateSigningRequest) (who, bool) {
		return ks.named(csr.Spec.SignerName)
	},
	due:  dueOfSigningRequest,
	view: request.FromCSR,
	awaits: func(w who) (reason, text string) {
		return reasonCSRAwaits, fmt.Sprintf(
			"Not signing CertificateSigningRequest until it is Approved: approving it requires the verb approve on signers.%s named %s/*",
			certificatesv1.GroupName, w.kind.domain())
	},
	answers: func(c *controller, waits func(*certificatesv1.CertificateSigningRequest) bool) outcome.Kind[*certificatesv1.CertificateSigningRequest] {
		return outcome.SigningRequests(c.client, c.Name, c.clock, waits)
	},
}

// dueOfSigningRequest looks only at the presence of Approved and Denied; their
// status can only be True.
func dueOfSigningRequest(csr *certificatesv1.CertificateSigningRequest) requests.Step {
	switch {
	case certificates.Condition(csr, certificatesv1.CertificateDenied) != nil, certificates.HasFailed(csr), len(csr.Status.Certificate) > 0:
		return requests.None
	case certificates.Condition(csr, certificatesv1.CertificateApproved) == nil:
		return requests.Await
	default:
		return requests.Sign
	}
}
