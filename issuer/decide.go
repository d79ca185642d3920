package issuer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
)

// step is what a CertificateRequest is due for.
type step int

const (
	stepNone  step = iota // it has its answer
	stepDeny              // to say that it was denied
	stepAwait             // to be approved
	stepSign
)

// The reasons of Events about requests, and of conditions of
// CertificateSigningRequests.
const (
	reasonIssued          = "CertificateIssued"
	reasonAwaits          = "WaitingForApproval"
	reasonCSRAwaits       = "WaitingApproval"
	reasonNotFound        = "IssuerNotFound"
	reasonNotReady        = "IssuerNotReady"
	reasonPending         = "SigningPending"
	reasonRetried         = "SigningRetried"
	reasonFailed          = "SigningError"
	reasonInvalidRequest  = "InvalidRequest"
	reasonInvalidAnswer   = "InvalidAnswer"
	reasonDeniedReference = "DeniedReference"
	reasonParseDuration   = "ErrorParseDuration"
	reasonInvalidDuration = "InvalidDuration"
)

// outcome is what becomes of a request, of either kind.
type outcome struct {
	// reason is that of the Ready condition of a CertificateRequest.
	reason string
	// event says more exactly what has happened.
	event, message string
	// chain is the certificate, if there is one.
	chain *pki.Chain
	// invalid says that nobody can sign it.
	invalid bool
	// again is when to try again; zero: as retry says.
	again time.Duration
	// retry is why to try again after the back-off; nil: there is no need, or
	// somebody tells when things have changed.
	retry error
}

// denied is the outcome of whatever an approver does not want. That there is no
// Event about it leaves it to the approver to make one.
var denied = outcome{
	reason: cmv1.CertificateRequestReasonDenied, message: "The CertificateRequest was denied by an approval controller",
}

func waits(event, format string, args ...any) outcome {
	return outcome{reason: cmv1.CertificateRequestReasonPending, event: event, message: fmt.Sprintf(format, args...)}
}

func fails(event, format string, args ...any) outcome {
	return outcome{reason: cmv1.CertificateRequestReasonFailed, event: event, message: fmt.Sprintf(format, args...)}
}

// notAllowed is the outcome for who may not refer to an issuer.
func notAllowed(w who) outcome {
	return fails(reasonDeniedReference,
		"the requester may not refer to the %s %q in namespace %q: grant the verb reference on %s.%s there",
		w.kind.Kind, w.Name, w.Namespace, w.kind.plural, w.kind.Group)
}

// findIssuer tells what there is to wait for before an issuer can sign; ok is
// false if there is something. issuer is nil if it does not exist.
func findIssuer(issuer Issuer, w who) (o outcome, ok bool) {
	if issuer == nil {
		return waits(reasonNotFound, "Referenced %q not found: there is no %s named %s", w.kind.Kind, w.kind.Kind, w.Name), false
	}
	why := "nobody has looked at it yet"
	switch ready := readyOf(issuer); {
	case ready == nil:
	case ready.ObservedGeneration < issuer.GetGeneration():
		why = "nobody has looked at it since it has changed"
	case ready.Status != metav1.ConditionTrue:
		why = ready.Reason + ": " + ready.Message
	default:
		return outcome{}, true
	}
	return waits(reasonNotReady, "Referenced issuer does not have a Ready status condition: %s", why), false
}

// decide makes an outcome of an answer that is not NotReady. failing is for how
// long Sign has returned nothing but errors that say nothing else, retryFor how
// long that may go on.
func decide(chain *pki.Chain, err error, failing, retryFor time.Duration) outcome {
	if err == nil {
		return outcome{
			reason: cmv1.CertificateRequestReasonIssued, message: "Certificate fetched from issuer successfully", event: reasonIssued, chain: chain,
		}
	}
	v := verdictOf(err)
	switch {
	case errors.As(err, new(answerError)):
		return fails(reasonInvalidAnswer, "%v", err)
	case v == nil && failing >= retryFor:
		return fails(reasonFailed, "Gave up after %v: %v", retryFor, err)
	case v == nil:
		o := waits(reasonRetried, "The issuer could not sign; trying again: %v", err)
		o.retry = err
		return o
	}
	switch v.kind {
	case invalid:
		o := fails(reasonInvalidRequest, "%v", err)
		o.invalid = true
		return o
	case permanent:
		return fails(reasonFailed, "%v", err)
	default:
		o := waits(reasonPending, "%v", err)
		if o.again = v.after; o.again <= 0 {
			o.retry = err
		}
		return o
	}
}

// failed tells whether there will be no certificate.
func (o outcome) failed() bool {
	return o.reason == cmv1.CertificateRequestReasonFailed || o.reason == cmv1.CertificateRequestReasonDenied
}

// eventType is that of the Event.
func (o outcome) eventType() string {
	if o.failed() || o.event == reasonRetried {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// certificate is what goes into status.certificate: leaf first, without the
// root.
func (o outcome) certificate() []byte { return pki.EncodeCertificates(o.chain.Certificates...) }

// maxMessage bounds what conditions and Events say: the note of an Event has at
// most 1024 bytes, with what marks the cut.
const maxMessage = 1021

// presentable makes a message fit for the API.
func presentable(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage] + "..."
	}
	return strings.ToValidUTF8(message, "")
}
