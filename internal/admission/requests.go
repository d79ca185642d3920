package admission

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// isCSR reports whether a is about the subresource of
// CertificateSigningRequests, in any version.
func isCSR(a admission.Attributes, subresource string) bool {
	return a.GetResource().GroupResource() == certificatesv1.Resource("certificatesigningrequests") &&
		a.GetSubresource() == subresource
}

// asCSR refuses objects of another type, which only a bug in the server can
// cause.
func asCSR(a admission.Attributes, obj runtime.Object) (*certificatesv1.CertificateSigningRequest, error) {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil, admission.NewForbidden(a, fmt.Errorf("expected type CertificateSigningRequest, got: %T", obj))
	}
	return csr, nil
}
