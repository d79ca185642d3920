package issuer

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
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
)

// notAllowed is the outcome if the requester may not refer to the issuer.
func notAllowed(w who) outcome.Outcome {
	return outcome.Fail(reasonDeniedReference,
		"the requester may not refer to the %s %q in namespace %q: grant the verb reference on %s.%s there",
		w.kind.Kind, w.Name, w.Namespace, w.kind.plural, w.kind.Group)
}

// findIssuer returns ok if an issuer can sign, and otherwise the outcome of a
// request that has to wait for it. issuer is nil if it does not exist.
func findIssuer(issuer Issuer, w who) (o outcome.Outcome, ok bool) {
	if issuer == nil {
		return outcome.Wait(reasonNotFound, "Referenced %q not found: there is no %s named %s", w.kind.Kind, w.kind.Kind, w.Name), false
	}
	why := "it has not been checked yet"
	switch ready := readyOf(issuer); {
	case ready == nil:
	case ready.ObservedGeneration < issuer.GetGeneration():
		why = "its current spec has not been checked yet"
	case ready.Status != metav1.ConditionTrue:
		why = ready.Reason + ": " + ready.Message
	default:
		return outcome.Outcome{}, true
	}
	return outcome.Wait(reasonNotReady, "Referenced issuer does not have a Ready status condition: %s", why), false
}

// decide converts an answer of Sign that is not NotReady to an outcome. failing
// is how long Sign has returned only errors without a verdict; retryFor is how
// long that may continue.
func decide(chain *pki.Chain, err error, failing, retryFor time.Duration) outcome.Outcome {
	if err == nil {
		return issued(chain)
	}
	v := verdictOf(err)
	switch {
	case errors.As(err, new(answerError)):
		return outcome.Fail(reasonInvalidAnswer, "%v", err)
	case v == nil && failing >= retryFor:
		return outcome.Fail(reasonFailed, "Gave up after %v: %v", retryFor, err)
	case v == nil:
		o := outcome.Wait(reasonRetried, "The issuer could not sign; trying again: %v", err)
		o.Routine, o.Retry = false, err
		return o
	}
	switch v.kind {
	case invalid:
		o := outcome.Fail(reasonInvalidRequest, "%v", err)
		o.Invalid = true
		return o
	case permanent:
		return outcome.Fail(reasonFailed, "%v", err)
	default:
		o := outcome.Wait(reasonPending, "%v", err)
		if o.After = v.after; o.After <= 0 {
			o.Retry = err
		}
		return o
	}
}

// issued is the outcome for a chain. status.certificate gets the chain leaf
// first, without the root.
func issued(chain *pki.Chain) outcome.Outcome {
	o := outcome.Outcome{
		State: outcome.Issued, Reason: reasonIssued, Message: outcome.MessageIssued,
		Issued: &signer.Issued{Certificate: chain.Certificates[0], PEM: pki.EncodeCertificates(chain.Certificates...)},
	}
	if chain.CA != nil {
		o.Issued.CA = pki.EncodeCertificates(chain.CA)
	}
	return o
}
