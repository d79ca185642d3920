package certificates

import (
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/pki/kubelet"
)

// addDefaults registers the defaults of v1beta1; v1 has none.
func addDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&certificatesv1beta1.CertificateSigningRequest{}, func(obj any) {
		setCSRDefaults(obj.(*certificatesv1beta1.CertificateSigningRequest))
	})
	scheme.AddTypeDefaultingFunc(&certificatesv1beta1.CertificateSigningRequestList{}, func(obj any) {
		list := obj.(*certificatesv1beta1.CertificateSigningRequestList)
		for i := range list.Items {
			setCSRDefaults(&list.Items[i])
		}
	})
}

// setCSRDefaults fills in fields that v1beta1 allows a client to omit. A field
// that was sent empty stays empty, and validation refuses it.
func setCSRDefaults(csr *certificatesv1beta1.CertificateSigningRequest) {
	if csr.Spec.Usages == nil {
		csr.Spec.Usages = []certificatesv1beta1.KeyUsage{
			certificatesv1beta1.UsageDigitalSignature,
			certificatesv1beta1.UsageKeyEncipherment,
		}
	}
	if csr.Spec.SignerName == nil {
		signerName := inferSignerName(csr.Spec.Request, csr.Spec.Usages)
		csr.Spec.SignerName = &signerName
	}
	for i := range csr.Status.Conditions {
		if csr.Status.Conditions[i].Status == "" {
			csr.Status.Conditions[i].Status = corev1.ConditionTrue
		}
	}
}

// inferSignerName recognizes the requests of kubelets by their content; every
// other request gets the signer that promises nothing. The request's signature
// does not matter here.
func inferSignerName(request []byte, usages []certificatesv1beta1.KeyUsage) string {
	req, err := pki.ParseRequest(request)
	switch {
	case err != nil:
		return certificatesv1beta1.LegacyUnknownSignerName
	case kubelet.ValidateClient(req.CertificateRequest, usages) == nil:
		return certificatesv1beta1.KubeAPIServerClientKubeletSignerName
	case kubelet.ValidateServing(req.CertificateRequest, usages) == nil:
		return certificatesv1beta1.KubeletServingSignerName
	default:
		return certificatesv1beta1.LegacyUnknownSignerName
	}
}
