// Package requests decides what to do next for a CertificateRequest to an
// issuer of cert-manager.io.
//
// A controller acts on the decisions, and a client explains them.
package requests

import (
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// ApprovalGrace is how long a request may wait for its approval, or for a
// controller to begin work on it, before that is reported. It usually takes
// less than a second.
const ApprovalGrace = 10 * time.Second

// Step is the next step for a request.
type Step int

const (
	// None: the request has its answer, or another controller answers it.
	None Step = iota
	// Deny: report that the request was denied.
	Deny
	// Await: the request has to be approved or denied.
	Await
	// Sign: the issuer has to answer the request.
	Sign
	// External: the issuer is of another API group, whose controller answers.
	// Until that controller has written a status, no other controller can
	// report the state of the request.
	External
)

// Due returns the next step for a request from the request alone. The order of its checks
// follows other signers.
func Due(cr *cmv1.CertificateRequest) Step {
	switch {
	case !certmanager.IsBuiltIn(cr.Spec.IssuerRef):
		return dueExternal(cr)
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionDenied):
		if isDenialReported(cr) {
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

// answered reports whether the request needs no signature any more. A
// certificate without a condition is an answer too: it may be in use.
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

// MessageDenied is the message of the Ready condition of a denied request.
const MessageDenied = "The CertificateRequest was denied by an approval controller"

// isDenialReported reports whether the Ready condition shows that a request is
// denied.
func isDenialReported(cr *cmv1.CertificateRequest) bool {
	ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady)
	return ready != nil && ready.Status == cmmeta.ConditionFalse &&
		ready.Reason == cmv1.CertificateRequestReasonDenied && ready.Message == MessageDenied && cr.Status.FailureTime != nil
}

// Undecided reports whether a request, to any issuer, still has to be approved
// or denied: it has no decision, and it has not ended without one.
func Undecided(cr *cmv1.CertificateRequest) bool {
	if certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved) != nil ||
		certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionDenied) != nil {
		return false
	}
	reason := certmanager.ReadyReason(cr)
	return reason != cmv1.CertificateRequestReasonFailed && reason != cmv1.CertificateRequestReasonIssued
}
