// Package approval decides which certificate requests need no person to
// approve them.
//
// A request is approved if a recogniser knows it and its requester may create
// the subresource of certificatesigningrequests that has the recogniser's
// name. The subresources do not exist: the right to create them is the right
// to have such requests approved (KEP-1513). Whether somebody has it is for
// the caller to ask.
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

// SignerName is the only signer whose requests are approved without a person.
const SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName

type (
	csr       = certificatesv1.CertificateSigningRequest
	condition = certificatesv1.CertificateSigningRequestCondition
)

// Waits reports whether a request waits for a decision that this package makes.
// Approved and Denied count by their presence alone. A request that has failed
// gets no certificate, so there is nothing to approve.
func Waits(c *csr) bool {
	return c.Spec.SignerName == SignerName &&
		len(c.Status.Certificate) == 0 &&
		!slices.ContainsFunc(c.Status.Conditions, decides)
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

// Policy is what somebody may set about approvals.
type Policy struct {
	// Strict also wants the name of a node after "system:node:", at which
	// Kubernetes does not look.
	Strict bool
}

// Recognise returns the recognisers that know a request, in the order in which
// to ask for permission: the first that is permitted approves. There is at
// least one, or an error that says why nobody knows the request. That is for
// ever: what it is about cannot change.
func (p Policy) Recognise(c *csr) ([]Recogniser, error) {
	if c.Spec.SignerName != SignerName {
		return nil, fmt.Errorf("requests to %s are never approved without a person", c.Spec.SignerName)
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
		// The last one is the most general: its objection says the most.
		if objection = r.objection(c, parsed); objection == nil {
			known = append(known, r)
		}
	}
	if len(known) == 0 {
		return nil, objection
	}
	return known, nil
}

// Permission is what the requester of c needs for r to approve it.
func (r Recogniser) Permission(c *csr) authorizationv1.SubjectAccessReviewSpec {
	return certificates.AccessOfRequester(c, &authorizationv1.ResourceAttributes{
		Verb:        "create",
		Group:       certificatesv1.GroupName,
		Version:     "*",
		Resource:    "certificatesigningrequests",
		Subresource: r.Name,
	})
}

// Approve returns a copy of c that r has approved. When that was, the API
// server writes down.
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
