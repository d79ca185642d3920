// Package issuance decides what happens to a Certificate of cert-manager.io:
// when a certificate is issued for it, with which key and request, what becomes
// of the answer, and whether the Certificate is ready.
//
// Each function is one decision: it takes a Situation and a time, and returns
// what to do and what to report. Only the functions named Set... change their
// arguments: they change a status that the caller writes. A controller reads
// the objects, calls these functions, and writes once. A client that explains a
// Certificate calls the same functions.
package issuance

import (
	"cmp"
	"slices"
	"strconv"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/revocation"
)

// Situation is a Certificate with its objects.
type Situation struct {
	Certificate *cmv1.Certificate
	// Secret is the Secret that spec.secretName names, with its data; nil if it
	// does not exist.
	Secret *corev1.Secret
	// Requests are the requests that Own returns.
	Requests []*cmv1.CertificateRequest
	// Owner is the Certificate that may write the Secret if several name it, as
	// returned by Owner. Nil means Certificate.
	Owner *cmv1.Certificate
	// IgnoresSuggestions is set if certificates are renewed by their spec alone, whatever
	// CAs suggest.
	IgnoresSuggestions bool
	// Revoked are the known revocations. Nil means that they are not known: what the status
	// has counts.
	Revoked *revocation.Index
}

// Own returns the requests that crt controls, in the order of their names.
func Own(crt *cmv1.Certificate, requests []*cmv1.CertificateRequest) []*cmv1.CertificateRequest {
	var own []*cmv1.CertificateRequest
	for _, cr := range requests {
		if metav1.IsControlledBy(cr, crt) {
			own = append(own, cr)
		}
	}
	slices.SortFunc(own, func(a, b *cmv1.CertificateRequest) int { return cmp.Compare(a.Name, b.Name) })
	return own
}

// Owner returns which of the Certificates that name the same Secret may write
// it: the one that the Secret names as its owner, otherwise the oldest.
// Certificates that are being deleted do not count. It returns nil if there is
// none. The Secret may be nil, and needs no data.
func Owner(certificates []*cmv1.Certificate, secret *corev1.Secret) *cmv1.Certificate {
	var oldest *cmv1.Certificate
	for _, crt := range certificates {
		switch {
		case !crt.DeletionTimestamp.IsZero():
		case secret != nil && secret.Annotations[cmv1.CertificateNameKey] == crt.Name:
			return crt
		case oldest == nil || older(crt, oldest):
			oldest = crt
		}
	}
	return oldest
}

func older(a, b *cmv1.Certificate) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// conflicting returns the Certificate that owns the Secret instead, or nil.
func (s Situation) conflicting() *cmv1.Certificate {
	if s.Owner == nil || s.Owner.Name == s.Certificate.Name {
		return nil
	}
	return s.Owner
}

// NextRevision returns the number of the next certificate.
func NextRevision(crt *cmv1.Certificate) int {
	if crt.Status.Revision == nil {
		return 1
	}
	return *crt.Status.Revision + 1
}

// Revision returns the number of the certificate that a request is for; ok is
// false if the request does not have one.
func Revision(cr *cmv1.CertificateRequest) (revision int, ok bool) {
	revision, err := strconv.Atoi(cr.Annotations[cmv1.CertificateRequestRevisionAnnotationKey])
	return revision, err == nil && revision > 0
}

// Current returns the request of the last certificate; nil if it was deleted,
// or none has been issued.
func (s Situation) Current() *cmv1.CertificateRequest {
	if s.Certificate.Status.Revision == nil {
		return nil
	}
	return first(s.ofRevision(*s.Certificate.Status.Revision))
}

// Next returns the requests for the next certificate.
func (s Situation) Next() []*cmv1.CertificateRequest {
	return s.ofRevision(NextRevision(s.Certificate))
}

func (s Situation) ofRevision(revision int) []*cmv1.CertificateRequest {
	var requests []*cmv1.CertificateRequest
	for _, cr := range s.Requests {
		if n, ok := Revision(cr); ok && n == revision {
			requests = append(requests, cr)
		}
	}
	return requests
}

// first returns one of several requests for the same certificate: one that has
// the certificate, otherwise the first.
func first(requests []*cmv1.CertificateRequest) *cmv1.CertificateRequest {
	for _, cr := range requests {
		if certmanager.ReadyReason(cr) == cmv1.CertificateRequestReasonIssued {
			return cr
		}
	}
	if len(requests) == 0 {
		return nil
	}
	return requests[0]
}

func isIssuing(crt *cmv1.Certificate) bool {
	return certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing)
}

func isDeleted(crt *cmv1.Certificate) bool { return !crt.DeletionTimestamp.IsZero() }
