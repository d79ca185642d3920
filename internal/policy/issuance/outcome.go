package issuance

import (
	"crypto"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// The reason and messages of the Events of a successful issuance.
const (
	EventIssuing     = "Issuing"
	MessageIssued    = "The certificate has been successfully issued"
	MessageTemporary = "Issued temporary certificate"
)

// Step is the next step of an issuance.
type Step int

// The steps.
const (
	// Wait until the obstacle in Outcome.Why is gone.
	Wait Step = iota
	// Store the certificate of Outcome.Request in the Secret, then SetIssued.
	Store
	// StoreTemporary means to store a Temporary certificate, and then to wait.
	StoreTemporary
	// Fail: Backoff.SetFailed, and an Event of the finding.
	Fail
)

// Outcome is the state of an issuance.
type Outcome struct {
	Step Step
	// Why is the reason of a failure. While waiting, only its message is set.
	Why Finding
	// Request is the request that decides; nil while there is none.
	Request *cmv1.CertificateRequest
	// Report means that the message belongs on the Certificate, by SetWaiting:
	// a person may have to act.
	Report bool
	// Again is when to call Issue again; zero means only after a change.
	Again time.Time
}

func wait(format string, args ...any) Outcome {
	return Outcome{Why: Finding{Message: fmt.Sprintf(format, args...)}}
}

// Issue decides what to do about an issuance under way, given the key of the
// next certificate (NextKey), which is nil if there is none yet. It returns
// Wait for a Certificate that is not being issued, is being deleted, or whose
// Secret belongs to another one.
func Issue(s Situation, key crypto.Signer, now time.Time) Outcome {
	next := s.Next()
	switch {
	case !isIssuing(s.Certificate) || isDeleted(s.Certificate):
		return wait("no certificate is being issued")
	case s.conflicting() != nil:
		return wait("Secret %q belongs to Certificate %q", s.Certificate.Spec.SecretName, s.conflicting().Name)
	case s.Certificate.Status.NextPrivateKeySecretName == nil || key == nil:
		return wait("the private key for the next certificate does not exist yet")
	case len(next) == 0:
		return wait("the CertificateRequest does not exist yet")
	case len(next) > 1:
		return wait("%d CertificateRequests exist for revision %d: all but one will be deleted", len(next), NextRevision(s.Certificate))
	}
	cr := next[0]
	if why := s.staleReason(cr, key.Public()); why != "" {
		return wait("CertificateRequest %q will be deleted: %s", cr.Name, why)
	}
	outcome := s.judge(cr, key, now)
	outcome.Request = cr
	return outcome
}

// judge returns the outcome for one request. A denial takes precedence over a
// certificate that was issued nevertheless.
func (s Situation) judge(cr *cmv1.CertificateRequest, key crypto.Signer, now time.Time) Outcome {
	if ended := verdict(cr); ended != nil {
		return failed(ended.Reason, ended.Message)
	}
	if certmanager.ReadyReason(cr) == cmv1.CertificateRequestReasonIssued {
		if why := s.certificateProblem(cr, key.Public(), now); why != "" {
			return failed(ReasonInvalidCertificate, why)
		}
		return Outcome{Step: Store}
	}
	if s.wantsTemporary(cr, now) {
		return Outcome{Step: StoreTemporary}
	}
	return await(cr, now)
}

func failed(reason, message string) Outcome {
	return Outcome{Step: Fail, Why: Finding{Reason: reason, Message: fmt.Sprintf(messageFailedAndRetriedForm, message)}}
}

// certificateProblem returns why an issued certificate cannot be used, or "".
func (s Situation) certificateProblem(cr *cmv1.CertificateRequest, key crypto.PublicKey, now time.Time) string {
	certs, err := pki.ParseBundle(cr.Status.Certificate)
	switch {
	case err != nil:
		return fmt.Sprintf("Failed to decode returned certificate: %v", err)
	case !pki.SameKey(certs[0].PublicKey, key):
		return "Issued certificate is for another public key than the one in the CertificateRequest"
	case now.After(certs[0].NotAfter):
		return fmt.Sprintf("Issued certificate expired already on %s", certs[0].NotAfter.UTC().Format(time.RFC1123))
	}
	if s.Revoked != nil {
		if r, ok := s.Revoked.Find(certs[0]); ok {
			return "Issued certificate was " + revokedOn(r)
		}
	}
	if len(cr.Status.CA) == 0 {
		return ""
	}
	if _, err := pki.ParseBundle(cr.Status.CA); err != nil {
		return fmt.Sprintf("Failed to decode returned CA certificate: %v", err)
	}
	return ""
}

// SetIssued ends an issuance in the status of crt, after the Secret got its
// certificate.
func SetIssued(crt *cmv1.Certificate) {
	revision := NextRevision(crt)
	crt.Status.Revision = &revision
	crt.Status.LastFailureTime, crt.Status.FailedIssuanceAttempts = nil, nil
	crt.Status.NextPrivateKeySecretName = nil
	crt.Status.ACME = nil // it was about the last certificate
	certmanager.RemoveCertificateCondition(crt, cmv1.CertificateConditionIssuing)
	certmanager.RemoveCertificateCondition(crt, ConditionRevoked)
}

// SetFailed ends an issuance in the status of crt for now, and records there when it is
// tried again. The caller that writes the status must delete the Secret with the next key:
// otherwise the next attempt would find the failed request again.
func (b Backoff) SetFailed(crt *cmv1.Certificate, why Finding, now time.Time) {
	at, attempts := metav1.NewTime(now), 1
	if before := crt.Status.FailedIssuanceAttempts; before != nil && *before > 0 {
		attempts = *before + 1
	}
	crt.Status.LastFailureTime, crt.Status.FailedIssuanceAttempts = &at, &attempts
	crt.Status.NextPrivateKeySecretName = nil
	message := fmt.Sprintf("%s (next attempt after %v, or at once with %q or a change of the spec)", why.Message, b.wait(&attempts), "certplane renew")
	certmanager.SetCertificateCondition(crt, cmv1.CertificateConditionIssuing, cmmeta.ConditionFalse, why.Reason, message, at)
}
