package identity

import (
	"context"
	"sync/atomic"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
)

// refusable is a client that stores the reason why the server refused the last request for
// a certificate, because the certificate manager only logs it.
type refusable struct {
	kubernetes.Interface
	refusal *atomic.Pointer[string]
}

func (c refusable) CertificatesV1() certificatesclient.CertificatesV1Interface {
	return refusableV1{c.Interface.CertificatesV1(), c.refusal}
}

type refusableV1 struct {
	certificatesclient.CertificatesV1Interface
	refusal *atomic.Pointer[string]
}

func (c refusableV1) CertificateSigningRequests() certificatesclient.CertificateSigningRequestInterface {
	return refusableRequests{c.CertificatesV1Interface.CertificateSigningRequests(), c.refusal}
}

type refusableRequests struct {
	certificatesclient.CertificateSigningRequestInterface
	refusal *atomic.Pointer[string]
}

func (c refusableRequests) Create(ctx context.Context, request *certificatesv1.CertificateSigningRequest, options metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	created, err := c.CertificateSigningRequestInterface.Create(ctx, request, options)
	switch {
	case err == nil:
		c.refusal.Store(nil)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		text := err.Error()
		c.refusal.Store(&text)
	}
	return created, err
}
