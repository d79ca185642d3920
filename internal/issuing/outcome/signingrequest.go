package outcome

import (
	"bytes"
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
)

// SigningRequests returns the Kind that answers CertificateSigningRequests by
// api, which must read past caches, as owner; if empty, the API server names
// the field manager. waits reports whether a request still waits for a
// certificate.
//
// It updates the whole status: the API server preserves decisions in any write,
// and does not track owners of single conditions, so an apply could not remove
// one.
func SigningRequests(api client.Client, owner string, clk clock.PassiveClock, waits func(*certificatesv1.CertificateSigningRequest) bool) Kind[*certificatesv1.CertificateSigningRequest] {
	return Kind[*certificatesv1.CertificateSigningRequest]{
		Read: func(ctx context.Context, key client.ObjectKey) (*certificatesv1.CertificateSigningRequest, error) {
			csr := &certificatesv1.CertificateSigningRequest{}
			return csr, api.Get(ctx, key, csr)
		},
		Write: func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, o Outcome) error {
			return api.Status().Update(ctx, csrWith(csr, o, metav1.NewTime(clk.Now())), client.FieldOwner(owner))
		},
		Shows: csrShows,
		Waits: waits,
	}
}

// csrCondition returns the type of the condition that shows an outcome without
// a certificate.
func csrCondition(o Outcome) certificatesv1.RequestConditionType {
	if o.Final() {
		return certificatesv1.CertificateFailed
	}
	return certificates.ConditionDelayed
}

func csrShows(csr *certificatesv1.CertificateSigningRequest, o Outcome) bool {
	if o.Issued != nil {
		return bytes.Equal(csr.Status.Certificate, o.Issued.PEM)
	}
	shown := certificates.Condition(csr, csrCondition(o))
	return shown != nil && shown.Reason == o.Reason && shown.Message == o.Message
}

// csrWith returns a copy of csr that shows an outcome.
func csrWith(csr *certificatesv1.CertificateSigningRequest, o Outcome, now metav1.Time) *certificatesv1.CertificateSigningRequest {
	csr = csr.DeepCopy()
	csr.Status.Conditions = slices.DeleteFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificates.ConditionDelayed
	})
	if o.Issued != nil {
		csr.Status.Certificate = o.Issued.PEM
		return csr
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: csrCondition(o), Status: corev1.ConditionTrue, Reason: o.Reason, Message: o.Message, LastUpdateTime: now,
	})
	return csr
}
