// Package requests decides what a CertificateRequest to an issuer of
// cert-manager.io is due for.
//
// A controller acts on the decisions, and a client explains them.
package requests

import (
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// ApprovalGrace is how long a request may wait for its approval, or for somebody to
// take it up, before anybody is told: mostly that takes less than a second.
const ApprovalGrace = 10 * time.Second

// Step is what a request is due for.
type Step int

const (
	// None: it has its answer, or is to be left alone.
	None Step = iota
	// Deny: to say that it was denied.
	Deny
	// Await: to be approved or denied by somebody.
	Await
	// Sign: to be answered by its issuer.
	Sign
	// External: the issuer is of another API group, whose program answers. Until
	// it has said something, nobody else can tell the requester how things are.
	External
)

// Due looks at a request alone. The order is that of the signers that other
// programs know.
func Due(cr *cmv1.CertificateRequest) Step {
	switch {
	case !certmanager.IsBuiltIn(cr.Spec.IssuerRef):
		return dueExternal(cr)
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionDenied):
		if denialIsTold(cr) {
			return None
		}
		return Deny
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionInvalidRequest), answered(cr):
		return None
	case !certmanager.RequestIs(cr, cmv1.CertificateRequestConditionApproved):
		return Await
	default:
		return Sign
	}
}

// answered reports whether nothing is to be signed any more. A certificate that
// nobody has vouched for is an answer too: somebody may be using it.
func answered(cr *cmv1.CertificateRequest) bool {
	reason := certmanager.ReadyReason(cr)
	return reason == cmv1.CertificateRequestReasonFailed || reason == cmv1.CertificateRequestReasonIssued || len(cr.Status.Certificate) > 0
}

func dueExternal(cr *cmv1.CertificateRequest) Step {
	for _, kind := range []cmv1.CertificateRequestConditionType{
		cmv1.CertificateRequestConditionDenied, cmv1.CertificateRequestConditionInvalidRequest, cmv1.CertificateRequestConditionReady,
	} {
		if certmanager.RequestCondition(cr, kind) != nil {
			return None
		}
	}
	return External
}

// MessageDenied is what the Ready condition of a denied request says.
const MessageDenied = "The CertificateRequest was denied by an approval controller"

// denialIsTold reports whether the Ready condition says that a request is denied.
func denialIsTold(cr *cmv1.CertificateRequest) bool {
	ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady)
	return ready != nil && ready.Status == cmmeta.ConditionFalse &&
		ready.Reason == cmv1.CertificateRequestReasonDenied && ready.Message == MessageDenied && cr.Status.FailureTime != nil
}

// Undecided reports whether a request is to be approved or denied, of whichever
// issuer: nobody has, and it is not over all the same.
func Undecided(cr *cmv1.CertificateRequest) bool {
	if certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved) != nil ||
		certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionDenied) != nil {
		return false
	}
	reason := certmanager.ReadyReason(cr)
	return reason != cmv1.CertificateRequestReasonFailed && reason != cmv1.CertificateRequestReasonIssued
}
