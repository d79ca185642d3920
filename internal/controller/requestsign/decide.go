package requestsign

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/issuer"
)

// refersTo tells whether ref is to this issuer, given that the request is in a
// namespace from which an Issuer can be meant.
func refersTo(ref cmmeta.IssuerReference, to client.Object) bool {
	kind := cmv1.IssuerKind
	if _, ok := to.(*cmv1.ClusterIssuer); ok {
		kind = cmv1.ClusterIssuerKind
	}
	return ref.Name == to.GetName() && certmanager.IssuerKind(ref) == kind && certmanager.IsBuiltIn(ref)
}

// The reasons of Events. Those of verdicts are in internal/signer/issuer, those
// of issuers that cannot sign in internal/policy/requests.
const (
	EventIssued    = "CertificateIssued"
	EventAwaits    = "WaitingForApproval"
	EventAwaitsCSR = "WaitingApproval" // of CertificateSigningRequests
	EventElsewhere = "WaitingForIssuer"
)

// outcome is what becomes of a request.
type outcome struct {
	// reason and message are those of the Ready condition.
	reason, message string
	// event is the reason of the Event about it; empty: there is none.
	event string
	// issued has the certificate, if there is one.
	issued *issuer.Issued
	// retry is why it has to be tried again by and by; nil: it is over, or
	// somebody tells when things have changed.
	retry error
}

// denied is the outcome of whatever an approver does not want. That there is no
// Event about it leaves it to the approver to make one.
var denied = outcome{
	reason: cmv1.CertificateRequestReasonDenied, message: requests.MessageDenied,
}

func pending(event, format string, args ...any) outcome {
	return outcome{reason: cmv1.CertificateRequestReasonPending, event: event, message: fmt.Sprintf(format, args...)}
}

// decide makes an outcome of what a signer says.
func decide(issued *issuer.Issued, err error) outcome {
	var permanent *signer.PermanentError
	var wait *signer.PendingError
	switch {
	case err == nil:
		return outcome{
			reason: cmv1.CertificateRequestReasonIssued, message: "Certificate fetched from issuer successfully", event: EventIssued, issued: issued,
		}
	case errors.As(err, &permanent):
		return outcome{reason: cmv1.CertificateRequestReasonFailed, message: permanent.Error(), event: permanent.Reason}
	case errors.As(err, &wait):
		o := pending(wait.Reason, "%s", wait.Message)
		if !slices.Contains(told, wait.Reason) {
			o.retry = err
		}
		return o
	default:
		o := pending(signer.ReasonUnavailable, "The issuer cannot sign at present; it keeps trying")
		o.retry = err
		return o
	}
}

// told are the reasons to wait for something that tells when it has changed.
var told = []string{
	issuer.ReasonSecretMissing, issuer.ReasonSecretInvalidData, issuer.ReasonMissingSecret, issuer.ReasonErrorParsingKey,
}

// final tells whether the request has its answer.
func (o outcome) final() bool { return o.reason != cmv1.CertificateRequestReasonPending }

// failed tells whether it is one that nobody wanted.
func (o outcome) failed() bool {
	return o.reason == cmv1.CertificateRequestReasonFailed || o.reason == cmv1.CertificateRequestReasonDenied
}

// kind is that of the Event.
func (o outcome) kind() string {
	if o.failed() {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

func (o outcome) status() cmmeta.ConditionStatus {
	if o.issued != nil {
		return cmmeta.ConditionTrue
	}
	return cmmeta.ConditionFalse
}

// on tells whether a request has this outcome already.
func (o outcome) on(cr *cmv1.CertificateRequest) bool {
	ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady)
	if ready == nil || ready.Status != o.status() || ready.Reason != o.reason || ready.Message != o.message {
		return false
	}
	if o.issued != nil {
		return bytes.Equal(cr.Status.Certificate, o.issued.Chain)
	}
	return !o.failed() || cr.Status.FailureTime != nil
}

// apply returns cr with the outcome. All else of its status stays as it is: the
// decision of an approver above all.
func (o outcome) apply(cr *cmv1.CertificateRequest, now time.Time) *cmv1.CertificateRequest {
	cr, at := cr.DeepCopy(), metav1.NewTime(now)
	certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, o.status(), o.reason, o.message, at)
	if o.issued != nil {
		cr.Status.Certificate, cr.Status.CA = o.issued.Chain, o.issued.CA
	}
	if o.failed() && cr.Status.FailureTime == nil {
		cr.Status.FailureTime = &at
	}
	return cr
}
