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

// absences are the reasons to issue that no longer apply when the Secret is
// restored.
var absences = []string{ReasonDoesNotExist, ReasonMissingData, ReasonInvalidKeyPair, ReasonInvalidCertificate}

// Adopt reports whether an issuance under way is no longer needed: it was
// started because there was no usable Secret, and now the Secret has a
// certificate that meets the Certificate's spec and is not due for renewal.
// This happens when a restore creates Certificates before Secrets. A Secret
// written by this issuance does not count: the issuance ends when its end is
// written to the status. A non-empty finding is for an Event, and the caller
// must then call SetAbandoned.
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

// isOfNext reports whether the key in the Secret is the key of the next
// certificate, or the next certificate has been issued already: the Secret may
// then have been written by this issuance.
func (i *inspection) isOfNext() bool {
	return slices.ContainsFunc(i.Next(), func(cr *cmv1.CertificateRequest) bool {
		csr, err := certmanager.ParseRequest(cr.Spec.Request)
		return certmanager.ReadyReason(cr) == cmv1.CertificateRequestReasonIssued || err == nil && pki.SameKey(csr.PublicKey, i.key.Public())
	})
}

// Yield reports whether an issuance under way ends because the Secret belongs
// to another Certificate. It may have been started before the other Certificate
// was seen, as when both are created at the same moment, or by hand. A
// non-empty finding is for an Event, and the caller must then call
// SetAbandoned.
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

// RestoredRevision returns the revision that the status of crt has lost in a restore,
// which recreates objects without their status. It is the highest revision of the requests
// in crt's namespace that name crt and have no owner any more. It returns nil if no such
// request exists or status.revision is set. Writing it to the status prevents the next
// request from having the name of an old one.
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
