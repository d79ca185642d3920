package certpolicy

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	policy "github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// ReasonNotAsPermitted is the reason of the refusal of a certificate.
const ReasonNotAsPermitted = "CertificateNotAsPermitted"

// PodRequestsResource is the resource of PodCertificateRequests.
var PodRequestsResource = requestkind.PodRequests.Resource

// Issued refuses the write of a certificate that policies forbid, for all users: an
// account of certplane's signers may be in other hands.
func (c *Checks) Issued(ctx context.Context, a Approval) Outcome {
	if !c.policies.Settings().CheckIssued || len(a.Issued) == 0 || bytes.Equal(a.Issued, a.OldIssued) ||
		!c.policies.Concern(a.Request.Kind, policy.SignerName(a.Request)) {
		return Outcome{}
	}
	certs, err := pki.ParseBundle(a.Issued)
	if err == nil && len(certs) == 0 {
		err = errors.New("it has no certificate")
	}
	if err != nil {
		return Outcome{Refusal: a.notAsPermitted(fmt.Sprintf("the certificate cannot be judged: %v", err))}
	}
	var outcome Outcome
	for i, cert := range certs {
		if i > 0 && !pki.SameKey(cert.PublicKey, a.Request.Key) { // a CA of the chain
			continue
		}
		if outcome = c.issued(ctx, a, cert); outcome.Refusal != nil {
			break
		}
	}
	return outcome
}

// issued decides about one certificate that the requester can use.
func (c *Checks) issued(ctx context.Context, a Approval, cert *x509.Certificate) Outcome {
	d, verdict := c.policies.DecideIssued(ctx, a.Request, a.Old, cert)
	var denied *quorum.Refusal
	switch {
	case verdict != nil && !errors.As(verdict, &denied):
		return Outcome{Refusal: unavailable(verdict)}
	case d == nil:
		return Outcome{}
	}
	if !a.DryRun {
		c.policies.Recorder().Record(d)
	}
	outcome := Outcome{Audit: audit(d.PolicyDecision)}
	if denied != nil {
		outcome.Refusal = a.notAsPermitted(denied.Message, causes(d, inCertificate)...)
	}
	return outcome
}

// inCertificate returns the field of a request with the certificate that a
// violation is about.
func inCertificate(kind v1alpha1.RequestKind, _ string) string {
	if kind == v1alpha1.PodCertificateRequests {
		return "status.certificateChain"
	}
	return "status.certificate"
}

func (a Approval) notAsPermitted(message string, causes ...metav1.StatusCause) *apierrors.StatusError {
	refusal := forbidden(a.Resource, a.Request.Name, message, causes...)
	refusal.ErrStatus.Reason = ReasonNotAsPermitted
	return refusal
}
