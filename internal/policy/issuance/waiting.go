package issuance

import (
	"cmp"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/requests"
)

// await returns the outcome while a request has no answer. The outcome describes what the
// request waits for: at once if its issuer has set that, otherwise after some time.
func await(cr *cmv1.CertificateRequest, now time.Time) Outcome {
	outcome := wait("%s", waitsFor(cr))
	if certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady) != nil {
		outcome.Report = true
		return outcome
	}
	if at := cr.CreationTimestamp.Add(requests.ApprovalGrace); at.After(now) {
		outcome.Again = at
	} else {
		outcome.Report = true
	}
	return outcome
}

// waitsFor returns what a request waits for, and what the operator can do about it.
func waitsFor(cr *cmv1.CertificateRequest) string {
	ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady)
	switch {
	case ready != nil:
		return fmt.Sprintf("CertificateRequest %q waits for its issuer: %s", cr.Name, cmp.Or(ready.Message, ready.Reason))
	case !certmanager.RequestIs(cr, cmv1.CertificateRequestConditionApproved):
		return fmt.Sprintf("CertificateRequest %q waits for approval: approve or deny it, or check that its approver is running and has the verb approve for %s", cr.Name, issuerOf(cr))
	default:
		return fmt.Sprintf("CertificateRequest %q is approved, but has not been processed: check that the controller of %s is running", cr.Name, issuerOf(cr))
	}
}

func issuerOf(cr *cmv1.CertificateRequest) string {
	ref := cr.Spec.IssuerRef
	return fmt.Sprintf("%s.%s/%s", certmanager.IssuerKind(ref), certmanager.IssuerGroup(ref), ref.Name)
}

// SetWaiting records in the status of crt what its issuance waits for. The reason of the
// condition remains the reason for the issuance.
func SetWaiting(crt *cmv1.Certificate, message string) {
	if issuing := certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing); issuing != nil && isIssuing(crt) {
		issuing.Message = message
	}
}
