// Package approval decides which certificate requests are approved
// automatically.
//
// A request is approved if a recogniser matches it and its requester may create the
// subresource of certificatesigningrequests with the recogniser's name. The subresources
// do not exist: the right to create them is the right to have such requests approved
// (KEP-1513). The caller must check that right.
package approval

import (
	"crypto/x509"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/pki/kubelet"
)

// SignerName is the only signer whose requests are approved automatically.
const SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName

type (
	csr       = certificatesv1.CertificateSigningRequest
	condition = certificatesv1.CertificateSigningRequestCondition
)

// Waits reports whether a request waits for a decision that this package makes.
func Waits(c *csr) bool { return c.Spec.SignerName == SignerName && Undecided(c) }

// Undecided reports whether a request for any signer waits for a decision.
// Approved and Denied count by their presence alone. A request that has failed
// gets no certificate, so there is nothing to approve.
func Undecided(c *csr) bool {
	return len(c.Status.Certificate) == 0 && !slices.ContainsFunc(c.Status.Conditions, decides)
}

func decides(c condition) bool {
	switch c.Type {
	case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied:
		return true
	case certificatesv1.CertificateFailed:
		return c.Status == corev1.ConditionTrue || c.Status == ""
	default:
		return false
	}
}

// Policy holds the settings for approvals.
type Policy struct {
	// Strict also requires a valid node name after "system:node:", which
	// Kubernetes does not check.
	Strict bool
}

// Recognise returns the recognisers that match a request, in the order in which to check
// permissions: the first permitted one approves. It returns at least one, or an error that
// explains why none matches. The error is permanent: the fields that it depends on are
// immutable.
func (p Policy) Recognise(c *csr) ([]Recogniser, error) {
	if c.Spec.SignerName != SignerName {
		return nil, fmt.Errorf("requests to %s are never approved automatically", c.Spec.SignerName)
	}
	parsed, err := pki.ParseRequest(c.Spec.Request)
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate request: %w", err)
	}
	known, err := recognise(c, parsed.CertificateRequest)
	if err == nil && p.Strict {
		err = kubelet.ValidateNodeName(parsed.CertificateRequest)
	}
	if err != nil {
		return nil, err
	}
	return known, nil
}

func recognise(c *csr, parsed *x509.CertificateRequest) ([]Recogniser, error) {
	var known []Recogniser
	var objection error
	for _, r := range recognisers {
		// The last recogniser is the most general, so its objection is the most
		// useful.
		if objection = r.objection(c, parsed); objection == nil {
			known = append(known, r)
		}
	}
	if len(known) == 0 {
		return nil, objection
	}
	return known, nil
}

// Permission returns the permission that the requester of c needs for r to
// approve it.
func (r Recogniser) Permission(c *csr) authorizationv1.SubjectAccessReviewSpec {
	return certificates.AccessOfRequester(c, &authorizationv1.ResourceAttributes{
		Verb:        "create",
		Group:       certificatesv1.GroupName,
		Version:     "*",
		Resource:    "certificatesigningrequests",
		Subresource: r.Name,
	})
}

// Approve returns a copy of c that r has approved. The API server sets the time
// of the approval.
func (r Recogniser) Approve(c *csr) *csr {
	c = c.DeepCopy()
	c.Status.Conditions = append(c.Status.Conditions, condition{
		Type:    certificatesv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  "AutoApproved",
		Message: r.message,
	})
	return c
}
