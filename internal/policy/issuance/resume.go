package issuance

import (
	"bytes"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// keyGrace is how long the key of a request, which is stored before the request, may
// take to arrive in another cache.
const keyGrace = 10 * time.Second

// HeldUntil returns until when nothing is done about a Certificate because another
// controller may be about to issue it; zero if nothing indicates that. The indication is a
// new request whose key is not stored, while the status shows no issuance. Afterwards, the
// request is useless: its key was lost.
func HeldUntil(s Situation, nextKeys []*corev1.Secret, now time.Time) time.Time {
	if isIssuing(s.Certificate) || isDeleted(s.Certificate) {
		return time.Time{}
	}
	for _, cr := range s.Next() {
		name, until := keyName(cr), cr.CreationTimestamp.Add(keyGrace)
		isStored := slices.ContainsFunc(nextKeys, func(s *corev1.Secret) bool { return s.Name == name })
		if name == "" || isStored || verdict(cr) != nil {
			continue
		}
		if until.After(now) && until.Sub(now) <= keyGrace { // otherwise a clock is wrong
			return until
		}
	}
	return time.Time{}
}

// CanBeFinished reports whether IsFinished may be true, for a Situation whose
// requests have no certificates.
func CanBeFinished(s Situation) bool {
	return s.Certificate.Status.NextPrivateKeySecretName == nil && !isDeleted(s.Certificate) && s.conflicting() == nil &&
		s.Secret != nil && slices.ContainsFunc(s.Next(), isIssued)
}

// IsFinished reports whether the Secret holds the certificate of the request for the next
// certificate, although the status does not show it: a controller was stopped before it
// wrote that. The caller must then call SetIssued.
func IsFinished(s Situation) bool {
	return CanBeFinished(s) && slices.ContainsFunc(s.Next(), func(cr *cmv1.CertificateRequest) bool {
		return isIssued(cr) && len(cr.Status.Certificate) > 0 && bytes.Equal(cr.Status.Certificate, s.Secret.Data[corev1.TLSCertKey])
	})
}

// isIssued reports whether a request has its certificate, and was not denied
// nevertheless.
func isIssued(cr *cmv1.CertificateRequest) bool {
	return certmanager.ReadyReason(cr) == cmv1.CertificateRequestReasonIssued && verdict(cr) == nil
}
