package request

import (
	"crypto/x509"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// From returns the request in an object of any kind; ok is false if the object is not a
// request.
func From(object any) (r Request, ok bool) {
	switch object := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		return FromCSR(object), true
	case *certificatesv1beta1.PodCertificateRequest:
		return FromPodRequest(object), true
	case *cmv1.CertificateRequest:
		return FromCertificateRequest(object), true
	}
	return Request{}, false
}

// FromCSR returns all that a CertificateSigningRequest asks for.
func FromCSR(csr *certificatesv1.CertificateSigningRequest) Request {
	spec := &csr.Spec
	r := Outline(v1alpha1.CertificateSigningRequests, csr)
	r.SignerName, r.PEM, r.Usages, r.Duration = spec.SignerName, spec.Request, names(spec.Usages), seconds(spec.ExpirationSeconds)
	r.Requester = requester(spec.Username, spec.UID, spec.Groups, spec.Extra)
	if issuer, ok := certmanager.ParseSignerName(spec.SignerName); ok {
		r.Issuer = &Issuer{Group: certmanager.Group, Signer: issuer}
	}
	r.read(pki.ParseRequest(spec.Request))
	return r
}

// FromCertificateRequest returns all that a CertificateRequest asks for.
func FromCertificateRequest(cr *cmv1.CertificateRequest) Request {
	spec := &cr.Spec
	r := Outline(CertificateRequests, cr)
	r.Issuer = &Issuer{Group: certmanager.IssuerGroup(spec.IssuerRef), Signer: certmanager.ReferredSigner(cr), Written: spec.IssuerRef}
	if certmanager.IsBuiltIn(spec.IssuerRef) {
		r.SignerName = r.Issuer.String()
	} else {
		r.Issuer.Namespace = cr.Namespace
	}
	r.PEM, r.Usages, r.IsCA = spec.Request, names(spec.Usages), spec.IsCA
	if len(r.Usages) == 0 {
		r.Usages = names(cmv1.DefaultKeyUsages())
	}
	if spec.Duration != nil {
		r.Duration = &spec.Duration.Duration
	}
	r.Requester = requester(spec.Username, spec.UID, spec.Groups, spec.Extra)
	r.read(certmanager.ParseRequest(spec.Request))
	return r
}

// FromPodRequest returns the content of a PodCertificateRequest itself.
func FromPodRequest(req *certificatesv1beta1.PodCertificateRequest) Request {
	spec := &req.Spec
	r := Outline(v1alpha1.PodCertificateRequests, req)
	r.SignerName, r.Annotations, r.Duration = spec.SignerName, spec.UnverifiedUserAnnotations, seconds(spec.MaxExpirationSeconds)
	r.Requester = ServiceAccount(req.Namespace, spec.ServiceAccountName)
	r.Requester.UID = string(spec.ServiceAccountUID)
	if len(spec.StubPKCS10Request) > 0 {
		if r.read(pki.ParseRequestDER(spec.StubPKCS10Request)); r.Unreadable != nil {
			r.Unreadable = fmt.Errorf("parsing spec.stubPKCS10Request: %w", r.Unreadable)
		}
		return r
	}
	// The bare key: the API server has verified the proof of its possession.
	//lint:ignore SA1019 kubelets of Kubernetes 1.35 have no other form
	key, err := x509.ParsePKIXPublicKey(spec.PKIXPublicKey)
	if r.Key = key; err != nil {
		r.Unreadable = fmt.Errorf("parsing spec.pkixPublicKey: %w", err)
	}
	return r
}
