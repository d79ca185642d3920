package issuance

import (
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// absences are the reasons to issue that end when a Secret comes back.
var absences = []string{ReasonDoesNotExist, ReasonMissingData, ReasonInvalidKeyPair, ReasonInvalidCertificate}

// Adopt reports whether an issuance under way has lost its reason: it was started
// because there was no usable Secret, and now there is one with a certificate
// that is all that the Certificate asks for and not due for renewal. That is so
// when a restore brings back Certificates before Secrets. What this very issuance
// has brought is no such Secret: it is over when its end is written down. The
// finding, if there is one, is for
// an Event; who acts on it calls SetAbandoned.
func Adopt(s Situation, now time.Time) Finding {
	issuing := certmanager.CertificateCondition(s.Certificate, cmv1.CertificateConditionIssuing)
	if issuing == nil || !isIssuing(s.Certificate) || isDeleted(s.Certificate) || !slices.Contains(absences, issuing.Reason) {
		return Finding{}
	}
	i := inspect(s, now)
	checks := append([]check{(*inspection).checkConflicting}, common...)
	if wrong := i.find(append(checks, (*inspection).checkRenewal, (*inspection).checkExpiry)...); !wrong.None() || i.isOfNext() {
		return Finding{}
	}
	return Finding{Reason: ReasonAdopted, Message: fmt.Sprintf("Secret %q holds a valid certificate again: no new one is issued", s.Certificate.Spec.SecretName)}
}

// isOfNext reports whether the key in the Secret is that of the certificate to
// come, or that certificate has been issued already: the Secret may be its.
func (i *inspection) isOfNext() bool {
	return slices.ContainsFunc(i.Next(), func(cr *cmv1.CertificateRequest) bool {
		csr, err := certmanager.ParseRequest(cr.Spec.Request)
		return certmanager.ReadyReason(cr) == cmv1.CertificateRequestReasonIssued || err == nil && pki.SameKey(csr.PublicKey, i.key.Public())
	})
}

// Yield reports whether an issuance under way ends because the Secret belongs to
// another Certificate. It may have been started before that one was known, as
// when both are made at the same moment, or by hand. The finding, if there is
// one, is for an Event; who acts on it calls SetAbandoned.
func Yield(s Situation) Finding {
	if !isIssuing(s.Certificate) || isDeleted(s.Certificate) {
		return Finding{}
	}
	return (&inspection{Situation: s}).checkConflicting()
}

// SetAbandoned ends an issuance in the status of crt without a new certificate,
// and without a failure.
func SetAbandoned(crt *cmv1.Certificate) {
	crt.Status.NextPrivateKeySecretName = nil
	certmanager.RemoveCertificateCondition(crt, cmv1.CertificateConditionIssuing)
}

// RestoredRevision returns the revision that the status of crt has lost, as a
// restore brings back objects without their status: the highest of those that
// requests in crt's namespace have that name crt and belong to nobody any more.
// It returns nil if there is nothing to go by or status.revision is set. Who
// writes it keeps the next request from being named like one of them.
func RestoredRevision(crt *cmv1.Certificate, requests []*cmv1.CertificateRequest) *int {
	if crt.Status.Revision != nil {
		return nil
	}
	highest := 0
	for _, cr := range requests {
		revision, ok := Revision(cr)
		if ok && cr.Annotations[cmv1.CertificateNameKey] == crt.Name && !isOf(cr, crt) {
			highest = max(highest, revision)
		}
	}
	if highest == 0 {
		return nil
	}
	return &highest
}

func isOf(cr *cmv1.CertificateRequest, crt *cmv1.Certificate) bool {
	return slices.ContainsFunc(cr.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == crt.UID })
}
